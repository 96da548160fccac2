import { panel as beyond } from "#panels/beyond.js";
import { panel as bias } from "#panels/bias.js";
import { panel as binary } from "#panels/binary.js";
import { panel as circle } from "#panels/circle.js";
import { panel as clock } from "#panels/clock.js";
import { panel as distance } from "#panels/distance.js";
import { panel as masks } from "#panels/masks.js";
import { panel as number } from "#panels/number.js";
import { panel as own_wave } from "#panels/own_wave.js";
import { panel as permutation } from "#panels/permutation.js";
import { panel as precision } from "#panels/precision.js";
import { panel as rotation } from "#panels/rotation.js";
import { panel as stretching } from "#panels/stretching.js";
import { panel as trained } from "#panels/trained.js";
import { panel as waves } from "#panels/waves.js";

/** In the order of the page. */
export const PANELS = [
  permutation, number, binary, clock, circle, waves, distance, rotation,
  bias, masks, beyond, stretching, precision, own_wave, trained,
];
