package simulation_test

import (
	"fmt"

	"github.com/banyan-llm/banyan/simulation"
	"github.com/banyan-llm/banyan/simulation/workload"
)

func ExampleEvaluate() {
	w, err := workload.Generate("few_prefixes", workload.Options{Seed: 1, Requests: 600})
	if err != nil {
		fmt.Println(err)
		return
	}
	mean := func(policy string) float64 {
		rep, err := simulation.Evaluate(simulation.Config{
			Workload: w, Policy: policy, Peers: 4,
			LoadDelay: 0.01, DispatchDelay: 0.001, IndexDelay: 0.05, Seed: 1,
		})
		if err != nil {
			fmt.Println(err)
		}
		return rep.TTFT.Mean
	}
	fmt.Println("ttft beats least_loaded:", mean("ttft") < mean("least_loaded"))
	fmt.Println("ttft beats random:", mean("ttft") < mean("random"))
	// Output:
	// ttft beats least_loaded: true
	// ttft beats random: true
}
