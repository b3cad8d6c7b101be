package main

// gone are settings of older versions and what to do instead: a file, variable
// or flag with one of them is refused with these words.
var gone = func() map[string]string {
	out := map[string]string{
		"limits.header_time": "this is 10s now, remove the setting",
		"tracing.queue":      "this is 4096 spans now, remove the setting",
		"tracing.timeout":    "this is 10s now, remove the setting",
	}
	for _, name := range []string{"credentials", "engine", "events_port", "model", "ranks", "replay_port", "role", "topic"} {
		out["discovery.kubernetes."+name] = "set discovery.replica." + name + ", which is for all discovered replicas"
	}
	return out
}()

// goneFrom is the same for an environment variable.
func goneFrom(variable string) string {
	for key, cure := range gone {
		if (option{key: key}).env() == variable {
			return cure
		}
	}
	return ""
}
