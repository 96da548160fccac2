import { chapter as beyond } from "#story/beyond.js";
import { chapter as bias } from "#story/bias.js";
import { chapter as binary } from "#story/binary.js";
import { chapter as circle } from "#story/circle.js";
import { chapter as clock } from "#story/clock.js";
import { chapter as distance } from "#story/distance.js";
import { chapter as number } from "#story/number.js";
import { chapter as permutation } from "#story/permutation.js";
import { chapter as rotation } from "#story/rotation.js";
import { chapter as stretching } from "#story/stretching.js";
import { chapter as waves } from "#story/waves.js";

/** In the order of the lessons: each chapter fails where the next one begins. */
export const STORY = [
  permutation, number, binary, clock, circle, waves, distance, rotation,
  bias, beyond, stretching,
];
