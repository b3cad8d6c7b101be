package replica

// own are the profiles that are not sets of timing.json. Every Source says
// what is measured, what is published and what is a guess.
var own = []Profile{
	{
		Name: "q32", A: 15e-3, B: 40e-6, CQ: 1e-9, D0: 16e-3, D1: .12e-3, D2: 50e-9, Chunk: 8192, KVTokens: 1 << 20,
		Source: "Qwen3-32B on H100 TP2: 8,192 tokens in 0.41 s as published (R_peak 20,480 tok/s); a and d are guesses",
	},
	{
		Name: "b2b", A: 15e-3, B: 40e-6, CQ: 1e-9, D0: 16e-3, D1: .12e-3, D2: 50e-9, Chunk: 8192, KVTokens: 307328,
		Source: "q32 with the KV cache of the published run",
	},
	{
		Name: "b2b37", A: 20.4e-3, B: .0921e-3, CQ: 2.71e-9, D0: 28.6e-3, D1: .281e-3, D2: 1.23e-7, Chunk: 2048, KVTokens: 461376,
		Source: "llama2-70b_h100_tp4 of timing.json with the KV cache of the published run",
	},
	{
		Name: "8b-a100", CQ: .9e-9, D1: 0, D2: 80e-9, Chunk: 8192, KVTokens: 400000,
		Linear: []Point{{1, 9.8e-3}, {64, 11.3e-3}, {256, 19.6e-3}, {512, 34.9e-3}, {1024, 75.6e-3}, {2048, 146.4e-3}, {4096, 275.4e-3}},
		Source: "llama3-8b_a100_tp1_linear of timing.json; attention from 2 TB/s and 312 TFLOP/s at 80 %, a guess",
	},
	{
		Name: "rtxpro6000-8b", CQ: 1.64e-9, D1: 53e-6, D2: 46.4e-9, Chunk: 2048, MaxSeqs: 128, KVTokens: 500000,
		Linear: []Point{{1, 13.24e-3}, {64, 14.3e-3}, {256, 18.67e-3}, {512, 29.64e-3}, {1024, 44.75e-3}, {2048, 88.37e-3}},
		Source: "fitted on the even requests of measured/RTXPRO6000_Llama-3.1-8B (vLLM 0.19.0); gate_test.go judges it on the odd ones; KV size a guess, never reached",
	},
	{
		Name: "rtx4090-8b", CQ: 2.64e-9, D1: 61e-6, D2: 158e-9, Chunk: 2048, MaxSeqs: 128, KVTokens: 41408,
		Linear: []Point{{1, 15.91e-3}, {64, 17.36e-3}, {256, 24.02e-3}, {512, 45.06e-3}, {1024, 85.31e-3}, {2048, 196.6e-3}},
		Source: "fitted on the even requests of measured/RTX4090_Llama-3.1-8B (vLLM 0.19.0); gate_test.go judges it on the odd ones; KV size from its meta data",
	},
	{
		Name: "rtxpro6000-32b", CQ: 5.73e-9, D1: 15.4e-6, D2: 199e-9, Chunk: 2048, MaxSeqs: 128, KVTokens: 200000,
		Linear: []Point{{1, 26.56e-3}, {128, 29.55e-3}, {512, 102.2e-3}, {2048, 337.4e-3}},
		Source: "fitted on the even requests of measured/RTXPRO6000_Qwen3-32B (vLLM 0.19.0); gate_test.go judges it on the odd ones; KV size a guess, never reached",
	},
	{
		Name: "rtxpro6000-30b-a3b", CQ: 3.1e-9, D1: 17.4e-6, D2: 33.2e-9, Chunk: 2048, MaxSeqs: 256, KVTokens: 400000,
		Linear: []Point{{1, 17.16e-3}, {128, 24.13e-3}, {512, 39.9e-3}, {2048, 99.45e-3}},
		Source: "fitted on the even requests of measured/RTXPRO6000_Qwen3-30B-A3B-Instruct-2507 (vLLM 0.19.0); gate_test.go judges it on the odd ones; KV size a guess, never reached",
	},
	{
		Name: "demo", A: 2e-3, B: 50e-6, CQ: 1e-9, D0: 5e-3, D1: .05e-3, D2: 2e-9, Chunk: 2048, MaxSeqs: 64, KVTokens: 48 << 10,
		Source: "made up: fast enough to watch, slow enough that a wrong choice shows",
	},
	{
		Name: "fast", A: .2e-3, B: 1e-6, D0: .2e-3, D1: 1e-6, Chunk: 8192, KVTokens: 1 << 18,
		Source: "made up: for tests of the live server",
	},
}

// missing holds what the layer tables of timing.json leave out: attention
// (seconds a token pair, seconds a token of context), chunk and KV size.
// Attention is computed, not measured: KV bytes a token over 70 % of the
// memory bandwidth, 2*layers*hidden FLOP a pair over 40 % of the peak.
var missing = map[string]Profile{
	"llama3.1-8b_h100_tp1_linear":   {CQ: .66e-9, D2: 56e-9, Chunk: 2048, KVTokens: 448000, Source: "attention computed"},
	"llama3.1-70b_h100_tp4_linear":  {CQ: .83e-9, D2: 35e-9, Chunk: 2048, KVTokens: 482000, Source: "attention computed"},
	"llama3.1-8b_rtx4090_linear":    {CQ: 2e-9, D2: 186e-9, Chunk: 2048, KVTokens: 41408, Source: "attention computed"},
	"llama3.1-8b_rtxpro6000_linear": {CQ: 1.3e-9, D2: 104e-9, Chunk: 2048, KVTokens: 540000, Source: "attention computed; KV size a guess"},
	"llama3-8b_a100_tp1_linear":     {CQ: .9e-9, D2: 80e-9, Chunk: 8192, KVTokens: 400000, Source: "attention computed; KV size a guess"},
	"llama3-70b_a100_tp4_linear":    {CQ: 1.1e-9, D2: 57e-9, Chunk: 8192, KVTokens: 400000, Source: "attention computed; KV size a guess"},
	"llama2-70b_h100_tp2":           {Chunk: 2048, KVTokens: 50000, Source: "KV size a guess"},
	"llama2-70b_h100_tp4":           {Chunk: 2048, KVTokens: 482000, Source: ""},
	"llama2-70b_h100_tp8":           {Chunk: 2048, KVTokens: 1300000, Source: "KV size a guess"},
	"llama2-70b_a100_tp2":           {Chunk: 2048, KVTokens: 50000, Source: "KV size a guess"},
	"llama2-70b_a100_tp4":           {Chunk: 2048, KVTokens: 482000, Source: "KV size a guess"},
	"llama2-70b_a100_tp8":           {Chunk: 2048, KVTokens: 1300000, Source: "KV size a guess"},
}
