package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router"
)

// promisedFlags are what scripts give each command, with the defaults that they
// count on.
const promisedFlags = `
serve   config print-config insecure-mesh insecure-admin
demo    peers=3 replicas=4 requests=2000 json
replica name="r0" listen="127.0.0.1:8000" events="tcp://127.0.0.1:5557" replay model profile time-scale=1
sim     trace workload policy="ttft" replicas peers load-delay index-delay faults seed json out
load    url workload trace rate concurrency duration json
status  peer="127.0.0.1:8081" json check wait watch
drain   peer
undrain peer
keygen  mesh-certs client admin`

func TestPromisedFlagsAreThere(t *testing.T) {
	helps := help(t)
	for line := range strings.Lines(strings.TrimSpace(promisedFlags)) {
		words := strings.Fields(line)
		for _, flag := range words[1:] {
			name, value, _ := strings.Cut(flag, "=")
			entry := regexp.MustCompile(`(?m)^  --` + name + `\b.*(?:\n    \t.*)*`).FindString(helps[words[0]])
			if entry == "" || value != "" && !strings.Contains(entry, "(default "+value+")") {
				t.Errorf("banyan %s: --%s, default %s: %q", words[0], name, value, entry)
			}
		}
	}
}

// promisedSettings are keys and defaults that files, charts and unit files of
// others count on.
var promisedSettings = map[string]string{
	"http.listen": ":8080", "admin.listen": "127.0.0.1:8081", "mesh.bind": "0.0.0.0:7946", "mesh.advertise": "", "mesh.join": "[]",
	"mesh.name": "", "mesh.hash_secret": "", "mesh.key": "", "mesh.keyring": "", "mesh.tls.cert": "", "mesh.tls.key": "", "mesh.tls.ca": "",
	"mesh.label": "banyan", "replicas": "[]", "discovery.dns": "[]", "discovery.kubernetes.selector": "", "ingest.owners": "2", "ingest.listen": "",
	"http.connection_age": "2m0s", "drain.delay": "15s", "drain.timeout": "10m0s", "isolate_by": "", "grid": "16", "tokenizer": "auto",
	"policy": "ttft", "auth.keys_file": "",
}

func TestPromisedSettingsKeepTheirDefaults(t *testing.T) {
	cfg, have := router.DefaultConfig(), map[string]string{}
	for _, o := range options(&cfg) {
		have[o.key] = fmt.Sprint(o.value.Interface())
	}
	for key, want := range promisedSettings {
		if got, ok := have[key]; !ok || got != want {
			t.Errorf("%s: %q (there: %v), want %q", key, got, ok, want)
		}
	}
	limits := 0
	for key := range have {
		if strings.HasPrefix(key, "limits.") {
			limits++
		}
	}
	if limits < 4 {
		t.Errorf("only %d limits", limits)
	}
}

// TestPromisedReplicaKeysAreTaken: a replica says all of this.
func TestPromisedReplicaKeysAreTaken(t *testing.T) {
	path := writeFile(t, `replicas:
- {name: r0, url: "http://a:1", engine: vllm, events: "tcp://a:2", replay: "tcp://a:3", rank: 1, role: prefill, kind: replica, model: m, labels: {k: v}, credentials: c}
- {url: "http://b:1/", role: decode}
- {url: "http://c:1", role: both, rank: 2}
- {name: p, url: "http://d:1", kind: pool}
ingest: {owners: all, listen: "tcp://127.0.0.1:5557"}
`)
	if _, err := loadConfig([]string{"--insecure-mesh", "--config", path}, nil, &strings.Builder{}); err != nil {
		t.Error(err)
	}
}

func TestPromisedTargetsAreThere(t *testing.T) {
	makefile := document(t, "Makefile")
	for _, target := range strings.Fields("demo test check bench sim fuzz e2e mutants soak build help") {
		if !regexp.MustCompile(`(?m)^` + target + `:.*## .`).MatchString(makefile) {
			t.Errorf("no target %s that make help explains", target)
		}
	}
}
