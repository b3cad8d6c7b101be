package router

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// eventually waits for what must come true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestRequestsWaitWhileReplicasAreFull: two replicas of two places each never
// hold more, everybody is served, and the engines never queue.
func TestRequestsWaitWhileReplicasAreFull(t *testing.T) {
	var mu sync.Mutex
	now, most := map[string]int{}, 0
	hold := make(chan struct{})
	engine := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			now[name]++
			most = max(most, now[name])
			mu.Unlock()
			<-hold
			mu.Lock()
			now[name]--
			mu.Unlock()
			says(200, decodeAnswer)(w, r)
		}
	}
	d := newDuo(t, "vllm", engine("a"), engine("b"), func(cfg *Config) {
		cfg.Routing.Disagg.Mode = "off"
		cfg.Admission.ReplicaLimit = 2
		for i := range cfg.Replicas {
			cfg.Replicas[i].Role = "both"
		}
	})
	d.peer.front.api.Store(d.api)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if status, _, answer := d.ask(plainAsk); status != 200 {
				t.Errorf("%d %s", status, answer)
			}
		})
	}
	eventually(t, "4 run and 16 wait", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return now["a"] == 2 && now["b"] == 2 && d.api.Stats().Queued == 16
	})
	if q := d.peer.report.queueStatus(); q.Waiting != 16 || q.Classes[1] != 16 || q.InFlight != 4 || q.Tenants != 1 {
		t.Errorf("%+v", q)
	}
	// Two that are let in at once may choose one place: then one of them goes back
	// to the front of the line and is let in again. So it may have been with the
	// four that run, and may be with those that wait.
	before := d.peer.report.queueStatus().Outcomes["admitted"]
	close(hold)
	wg.Wait()
	if most > 2 {
		t.Errorf("%d at one replica", most)
	}
	q := d.peer.report.queueStatus()
	if q.Waiting != 0 || q.Outcomes["admitted"]-before < 16 || q.Refused() != 0 {
		t.Errorf("%+v", q)
	}
}

// TestAdmissionFaultsAreNamed: all at once, by key.
func TestAdmissionFaultsAreNamed(t *testing.T) {
	c := AdmissionConfig{
		ReplicaLimit: -1, EngineQueue: -1, KVLoad: -1, Classes: 99, DefaultClass: 99, TenantQueue: -1, KeyClasses: map[string]int{"k": -1},
	}
	err := c.validate()
	for _, key := range []string{"replica_limit", "engine_queue", "kv_load", "classes", "default_class", "tenant_queue", "key_classes"} {
		if err == nil || !containsKey(err, "admission."+key+":") {
			t.Errorf("%s is not named: %v", key, err)
		}
	}
}

func containsKey(err error, key string) bool {
	for line := range strings.Lines(err.Error()) {
		if strings.HasPrefix(line, key) {
			return true
		}
	}
	return false
}

// TestAWaitEndsWhenReplicasAreGone: whoever waits for room is told that there
// is nobody left.
func TestAWaitEndsWhenReplicasAreGone(t *testing.T) {
	hold := make(chan struct{})
	slow := func(w http.ResponseWriter, r *http.Request) { <-hold; says(200, decodeAnswer)(w, r) }
	d := newDuo(t, "vllm", slow, slow,
		func(cfg *Config) {
			cfg.Routing.Disagg.Mode, cfg.Admission.ReplicaLimit = "off", 1
			cfg.Replicas = cfg.Replicas[:1]
			cfg.Replicas[0].Role = "both"
		})
	d.peer.front.api.Store(d.api)
	results := make(chan string, 2)
	for range 2 {
		go func() {
			status, _, _ := d.ask(plainAsk)
			results <- fmt.Sprint(status)
		}()
	}
	eventually(t, "one waits", func() bool { return d.api.Stats().Queued == 1 })
	d.peer.fleet.Set(nil, time.Now())
	if got := <-results; got != "503" {
		t.Errorf("the waiting one was told %s", got)
	}
	close(hold)
	if got := <-results; got != "200" {
		t.Errorf("the running one got %s", got)
	}
}
