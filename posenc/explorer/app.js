import { start } from "#core/shell.js";
import { PANELS } from "#panels/index.js";

start(PANELS, document.getElementById("app"));
