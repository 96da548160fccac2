const TURN = 2 * Math.PI;

/**
 * What follows a pointer that turns something round and round a centre: a function of its place to
 * the value, which grows by `each` per turn clockwise. It begins with `value` at the place [x, y].
 */
export function turning([cx, cy], [x, y], value, each) {
  const angle = (toX, toY) => Math.atan2(toY - cy, toX - cx);
  let [now, last] = [value, angle(x, y)];
  return (toX, toY) => {
    const by = (angle(toX, toY) - last) / TURN;
    now += (by - Math.round(by)) * each;
    last = angle(toX, toY);
    return now;
  };
}
