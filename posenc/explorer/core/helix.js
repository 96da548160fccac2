const TURN = 2 * Math.PI;

/**
 * Points along an axis by position, as a helix; place(point, view) says where one lies across it.
 */
export function helix(data, s, place) {
  return (context, width, height, colors) => {
    const [turn, tilt] = [(s.turn * Math.PI) / 180, (s.tilt * Math.PI) / 180];
    const radius = Math.min(height * 0.24, width * 0.16);
    const long = Math.min(width * 0.8, 620);
    // Position runs along the axis; turning and tilting are those of a book held in two hands.
    const project = (point, at) => {
      const [px, py] = place(point, s.view);
      const along = (at / Math.max(data.count - 1, 1) - 0.5) * long;
      const x = along * Math.cos(turn) + px * radius * Math.sin(turn);
      const deep = -along * Math.sin(turn) + px * radius * Math.cos(turn);
      return [width / 2 + x, height / 2 - (py * radius * Math.cos(tilt) - deep * Math.sin(tilt))];
    };
    const spots = data.points.map(project);
    context.strokeStyle = colors.grid;
    context.lineWidth = 1.5;
    context.beginPath();
    const centre = { sin: 0, cos: 0, other: 0 };
    context.moveTo(...project(centre, 0));
    context.lineTo(...project(centre, data.count - 1));
    context.stroke();
    context.strokeStyle = colors.a;
    context.lineWidth = 1.25;
    context.globalAlpha = 0.6;
    context.beginPath();
    smooth(data, s).forEach(([point, at]) => context.lineTo(...project(point, at)));
    context.stroke();
    context.globalAlpha = 1;
    if (data.count <= 160) {
      for (const [x, y] of spots) disc(context, x, y, 2.4, colors.a);
    }
    disc(context, ...spots[data.position], 6, colors.b);
    context.fillStyle = colors.muted;
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "bottom";
    context.fillText("0", spots[0][0], spots[0][1] - 8);
    context.fillText(
      String(data.count - 1),
      spots[data.count - 1][0],
      spots[data.count - 1][1] - 8,
    );
  };
}

/** The thread through the points, with enough of it between two tokens to look round. */
function smooth(data, s) {
  const fine = Math.min(24, Math.max(1, Math.ceil((data.frequency / TURN) * 40)));
  const steps = (data.count - 1) * fine;
  return Array.from({ length: steps + 1 }, (_, i) => {
    const at = i / fine;
    const point = {
      sin: Math.sin(at * data.frequency),
      cos: Math.cos(at * data.frequency),
      other: Math.cos(at * data.strange),
    };
    return [point, at];
  });
}

function disc(context, x, y, size, color) {
  context.fillStyle = color;
  context.beginPath();
  context.arc(x, y, size, 0, TURN);
  context.fill();
}
