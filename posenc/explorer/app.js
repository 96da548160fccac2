import { start } from "#core/shell.js";
import { PANELS } from "#panels/index.js";
import { STORY } from "#story/index.js";

start(PANELS, STORY, document.getElementById("app"));
