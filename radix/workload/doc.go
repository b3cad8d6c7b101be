// Package workload generates the index workloads that published figures of
// other systems were measured on, exactly: B and B1 (after Dynamo's driver), L
// (after llm-d's) and S (after SGLang's). Benchmarks and tests of the tree and
// of router/index share it. It also has the yardstick for times, a chase along
// dependent cache misses, for every package's benchmarks.
//
// I1: every workload is a pure function of the workload's definition and the
// hasher; two calls give equal values.
package workload
