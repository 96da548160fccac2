const STEP_TIME = 100;

/** What plays on the page: one setting at most goes on by itself, until somebody stops it. */
export function createPlayer(told) {
  let timer = null;
  const stop = () => {
    if (timer === null) return;
    clearInterval(timer);
    timer = null;
    told();
  };
  return {
    stop,
    get on() {
      return timer !== null;
    },
    /** Calls `advance` step by step; where something plays already, stops that. */
    toggle(advance) {
      if (timer !== null) return stop();
      timer = setInterval(advance, STEP_TIME);
      told();
    },
  };
}
