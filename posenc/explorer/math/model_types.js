// What a model type's code does that its config.json does not say, as posenc.models.read has it.

// Types whose code turns nothing, whatever their file says.
const UNTURNED = [
  "gpt2", "gpt_bigcode", "gpt_neo", "opt", "bert", "distilbert", "electra", "mobilebert", "roberta", "xlm-roberta",
  "mpnet", "bart", "whisper", "bloom", "mpt", "t5", "mt5", "umt5", "deberta", "deberta-v2", "xlnet", "jamba", "zamba",
  "nemotron_h", "kimi_linear", "vit", "beit", "swin", "swinv2", "dinov2", "dinov2_with_registers", "clip",
  "clip_text_model", "clip_vision_model", "siglip", "siglip_text_model", "siglip_vision_model", "siglip2",
  "siglip2_text_model", "siglip2_vision_model", "wav2vec2", "wav2vec2-bert",
];
// Types that posenc.models.read refuses, which turn nothing either.
const REFUSED = ["inkling2", "inkling2_text", "inkling2_loop", "inkling2_loop_text"];
const withALiBi = ({ alibi }) => alibi === true;
// Types of which some models turn and others do not.
const UNTURNED_WHERE = {
  baichuan: ({ hidden_size }) => hidden_size !== 4096,
  falcon: withALiBi, RefinedWeb: withALiBi, RefinedWebModel: withALiBi,
  granitemoehybrid: ({ position_embedding_type }) => position_embedding_type !== "rope",
};

// Types whose code makes angles of its own of what the file says, or turns by rows and columns.
const OTHERWISE = [
  "chatglm", "qwen", "new", "phimoe", "hunyuan_v1_dense", "hunyuan_v1_moe", "hunyuan_vl", "hunyuan_vl_text", "deepseek_v4",
  "wav2vec2-conformer", "dinov3_vit", "pixtral", "llama4_vision_model", "gemma4_vision", "glm4v_vision", "qwen2_vl_vision",
  "qwen2_5_vl_vision", "qwen3_vl_vision", "qwen3_vl_moe_vision", "qwen3_5_vision", "qwen3_5_moe_vision",
  "exaone4_5_vision", "ernie4_5_vl_moe_vision",
];

/** Where full and sliding layers turn differently: the names of their bases. Those that slide are not stretched. */
export const BASES = {
  gemma3: ["rope_theta", "rope_local_base_freq"], modernbert: ["global_rope_theta", "local_rope_theta"],
  olmo3: ["rope_theta", "rope_theta"],
};
Object.assign(BASES, { gemma3_text: BASES.gemma3, gemma3n: BASES.gemma3, gemma3n_text: BASES.gemma3 });

const part = (partial_rotary_factor, head_dim) => ({ partial_rotary_factor, head_dim });
const based = (rope_theta, head_dim) => ({ rope_theta, head_dim });
const GEMMA_3 = { ...based(1e6, 256), rope_local_base_freq: 10_000, max_position_embeddings: 131_072 };
const GEMMA_3N = { ...based(1e6, 256), rope_local_base_freq: 10_000 };
const GEMMA_4 = { head_dim: 256, global_head_dim: 512 };
const MLA = { qk_rope_head_dim: 64 };
const QWEN_3_5 = part(0.25, 256);
const APERTUS = {
  ...based(12e6),
  rope_parameters: {
    rope_type: "llama3", rope_theta: 12e6, factor: 8, low_freq_factor: 1, high_freq_factor: 4,
    original_max_position_embeddings: 8192,
  },
};
const YARN = { rope_type: "yarn", beta_fast: 32, beta_slow: 1 };
const GPT_OSS = {
  ...based(150_000, 64),
  rope_parameters: { ...YARN, factor: 32, truncate: false, original_max_position_embeddings: 4096 },
};
const MINISTRAL_3 = {
  head_dim: 128,
  rope_parameters: {
    ...YARN, rope_theta: 1e6, factor: 16, mscale: 1, mscale_all_dim: 1, original_max_position_embeddings: 16_384,
  },
};
const DORY = {
  head_dim: 256,
  rope_parameters: { full_attention: based(1e7), sliding_attention: based(10_000) },
};

/** What the code takes where the file is silent, if it is not 10 000 for a base and whole heads. */
export const SILENT = {
  mixtral: based(1e6), gpt_oss: GPT_OSS, smollm3: based(2e6), llama4: based(500_000, 128),
  llama4_text: based(500_000, 128), olmo3: based(500_000), cohere: based(500_000), ernie4_5: based(500_000, 128),
  ernie4_5_moe: based(500_000), ernie4_5_vl_moe: based(500_000), ernie4_5_vl_moe_text: based(500_000),
  ernie4_5_moe_vl: based(500_000), ministral3: MINISTRAL_3, qwen2_vl: based(1e6), qwen2_vl_text: based(1e6),
  qwen2_5_vl: based(1e6), qwen2_5_vl_text: based(1e6), qwen3_vl: based(500_000, 128), qwen3_vl_text: based(500_000, 128),
  qwen3_vl_moe: based(500_000, 128), qwen3_vl_moe_text: based(500_000, 128), helium: based(100_000, 128),
  apertus: APERTUS, apertus1p5: APERTUS, apertus1p5_text: APERTUS, dory: DORY, sarvam_moe: based(8e6, 64),
  flex_olmo: based(500_000), bitnet: based(500_000), minimax_m2: based(5e6, 128), solar_open: based(1e6, 128),
  hy_v3: based(11_158_840, 128), afmoe: { head_dim: 128 }, lfm2: based(1e6), lfm2_moe: based(1e6),
  modernbert: { global_rope_theta: 160_000, local_rope_theta: 10_000 },
  gemma: { head_dim: 256 }, gemma2: { head_dim: 256 }, vaultgemma: { head_dim: 256 }, gemma3: GEMMA_3,
  gemma3_text: GEMMA_3, gemma3n: GEMMA_3N, gemma3n_text: GEMMA_3N, gemma4: GEMMA_4, gemma4_text: GEMMA_4,
  qwen3: { head_dim: 128 }, seed_oss: { head_dim: 128 }, lara_mini: { head_dim: 128 },
  glm: part(0.5, 128), glm4: part(0.5, 128), glm4_moe: part(0.5),
  phi: part(0.5), persimmon: part(0.5), nemotron: part(0.5), stablelm: part(0.25), gpt_neox: part(0.25), moonshine: part(0.9),
  qwen3_next: part(0.25, 256), qwen3_5: QWEN_3_5, qwen3_5_text: QWEN_3_5, qwen3_5_moe: QWEN_3_5, qwen3_5_moe_text: QWEN_3_5,
  gptj: { rotary_dim: 64 }, codegen: { rotary_dim: 64 },
  deepseek_v2: MLA, deepseek_v3: MLA, deepseek_v32: MLA, kimi_k2: MLA, sarvam_mla: MLA, youtu: MLA,
  hy_v4: MLA, hy_v4_vl: MLA, hy_v4_vl_text: MLA, minicpm3: { qk_rope_head_dim: 32 },
};

/** What a table of these has for a model type, which may be anything that JSON can say. */
export const ofType = (table, type) => (typeof type === "string" && Object.hasOwn(table, type) ? table[type] : undefined);

/** Whether nothing turns in the model of this config.json. */
export const turnsNothing = (config) =>
  [...UNTURNED, ...REFUSED].includes(config.model_type) || ofType(UNTURNED_WHERE, config.model_type)?.(config) === true;

/** Whether its angles follow from more than a frequency of each pair and the position. */
export const turnsOtherwise = (config) =>
  OTHERWISE.includes(config.model_type) || (config.dual_chunk_attention_config ?? null) !== null;
