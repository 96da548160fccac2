/* The calls that the driver of attention makes: odd sizes, and borders that cross tiles. */
struct shape {
    int64_t batch, heads, key_heads, queries, keys, width, value_width, causal, window, sinks;
    int64_t prefix, documents, padding, threads, chunks;
    /* The order of the first token: positions may be shifted below zero. */
    int64_t first;
    /* Steps read by the count of open gates, in place of vectors. */
    int64_t steps;
    double dropout;
    /* The width of the near zone; 0 where there are no zones. */
    int64_t zone;
    /* The width of chunks; 0 where all is one. */
    int64_t chunk;
    /* Rows of tables of vectors that bfloat16 holds, for all distances or for most; 0: few, of any. */
    int64_t rows;
};

static const struct shape shapes[] = {
    {1, 1, 1, 1, 1, 1, 1, .causal = 1, .window = -1, .threads = 1, .chunks = 1},
    {2, 4, 2, 63, 63, 40, 24, .causal = 1, .window = -1, .threads = 2, .chunks = 1},
    {1, 2, 2, 129, 129, 80, 96, .window = -1, .threads = 2, .chunks = 1},
    {1, 3, 1, 70, 131, 17, 5, .causal = 1, .window = 20, .sinks = 3, .threads = 2, .chunks = 2},
    {2, 2, 2, 130, 130, 8, 64, .window = 70, .sinks = 65, .documents = 1, .padding = 1, .threads = 3,
     .chunks = 3},
    {2, 2, 1, 66, 66, 33, 16, .causal = 1, .window = -1, .prefix = 31, .documents = 1, .padding = 1,
     .threads = 1, .chunks = 1},
    /* Windows that leave some strips of rows nothing of a tile. */
    {1, 2, 2, 130, 130, 32, 32, .causal = 1, .window = 10, .threads = 1, .chunks = 1},
    {1, 2, 2, 130, 130, 32, 32, .causal = 1, .window = 40, .threads = 1, .chunks = 1},
    {1, 2, 2, 130, 130, 24, 16, .window = 59, .sinks = 2, .threads = 2, .chunks = 2},
    /* Orders below zero, which no prefix and no sink may take for their own. */
    {1, 2, 1, 130, 130, 16, 16, .causal = 1, .window = -1, .threads = 1, .chunks = 1, .first = -200},
    {2, 2, 2, 90, 130, 16, 16, .causal = 1, .window = 30, .sinks = 3, .prefix = 5, .padding = 1,
     .threads = 2, .chunks = 1, .first = -100},
    {1, 2, 1, 150, 150, 24, 16, .causal = 1, .window = -1, .threads = 1, .chunks = 1, .steps = 2},
    {2, 2, 1, 150, 150, 24, 16, .causal = 1, .window = -1, .documents = 1, .padding = 1, .threads = 2,
     .chunks = 2, .steps = 7},
    {1, 3, 1, 170, 190, 17, 5, .window = 70, .sinks = 65, .prefix = 9, .threads = 2, .chunks = 3,
     .steps = 64},
    {1, 1, 1, 1, 1, 1, 1, .causal = 1, .window = -1, .threads = 1, .chunks = 1, .steps = 3},
    {2, 4, 2, 90, 131, 24, 16, .causal = 1, .window = -1, .threads = 2, .chunks = 1, .dropout = 0.3},
    {2, 2, 2, 130, 130, 8, 64, .window = 70, .sinks = 65, .documents = 1, .padding = 1, .threads = 3,
     .chunks = 3, .steps = 5, .dropout = 0.7},
    /* Chunks: that cut tiles, that lie below zero, and with all else. */
    {1, 2, 1, 130, 200, 24, 16, .causal = 1, .window = -1, .threads = 2, .chunks = 1, .first = -90,
     .chunk = 40},
    {2, 2, 2, 90, 130, 17, 8, .window = 30, .sinks = 3, .prefix = 5, .documents = 1, .padding = 1,
     .threads = 2, .chunks = 2, .dropout = 0.3, .chunk = 70},
    {1, 2, 1, 1, 150, 32, 16, .causal = 1, .window = -1, .threads = 1, .chunks = 1, .chunk = 64},
    /* Zones: whose border crosses tiles, that leave far sinks alone, with groups and chunks. */
    {1, 2, 2, 130, 130, 24, 16, .causal = 1, .window = -1, .threads = 1, .chunks = 1, .zone = 50},
    {2, 4, 2, 90, 200, 17, 24, .causal = 1, .window = 20, .sinks = 70, .prefix = 3, .padding = 1,
     .threads = 2, .chunks = 1, .zone = 20},
    {2, 2, 1, 130, 130, 16, 8, .causal = 1, .window = -1, .documents = 1, .padding = 1, .threads = 3,
     .chunks = 2, .first = -60, .dropout = 0.4, .zone = 1},
    /* Long tables: read where they lie, or padded; of whole tiles, of others, and in windows. */
    {1, 2, 2, 150, 150, 64, 32, .window = -1, .threads = 2, .chunks = 1, .rows = 401},
    {2, 2, 1, 129, 190, 48, 33, .causal = 1, .window = -1, .threads = 1, .chunks = 2, .rows = 401},
    {1, 2, 1, 131, 131, 17, 16, .window = 23, .sinks = 2, .padding = 1, .threads = 2, .chunks = 2,
     .rows = 301},
    {1, 2, 1, 100, 170, 32, 48, .causal = 1, .window = -1, .documents = 1, .threads = 1, .chunks = 1,
     .dropout = 0.3, .chunk = 70, .rows = 160},
    /* One query, whose keys are read where they lie: of whole vectors, of others, with all else. */
    {2, 4, 2, 1, 131, 64, 64, .causal = 1, .window = -1, .threads = 2, .chunks = 1},
    {1, 2, 2, 1, 64, 128, 80, .causal = 1, .window = -1, .threads = 1, .chunks = 1},
    {1, 3, 1, 1, 70, 17, 5, .causal = 1, .window = 20, .sinks = 3, .threads = 1, .chunks = 1},
    {2, 2, 1, 1, 150, 32, 16, .window = 40, .sinks = 2, .prefix = 3, .documents = 1, .padding = 1,
     .threads = 2, .chunks = 1, .first = -100, .dropout = 0.3},
    {2, 4, 2, 1, 150, 16, 48, .causal = 1, .window = -1, .threads = 1, .chunks = 1, .steps = 5},
    {1, 2, 1, 1, 200, 48, 24, .causal = 1, .window = 120, .sinks = 3, .padding = 1, .threads = 2,
     .chunks = 1, .zone = 50},
};
