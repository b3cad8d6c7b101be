//go:build e2e

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/console"
)

const (
	// seats is what one stand-in runs at a time, and admission.replica_limit.
	seats = 6
	// lineLength is limits.queue: so long that the modest tenant's few can never
	// be as many in it as the greedy one's, and is never turned away.
	lineLength = 16
	// manyAnswers is how many answers end the run, longest how long it may take.
	manyAnswers = 400
	longest     = 40 * time.Second
)

// crowd is one kind of client: each asks again as soon as it was answered, on
// a connection of its own, so that the balancer chooses anew.
type crowd struct {
	name     string
	clients  int
	key      string
	priority string
}

// outcomes is what a crowd was told.
type outcomes struct {
	answered, refused int
	waited            time.Duration // of all answers, from the request to the end
	lost              []error       // everything else
}

// TestSaturation drives two replicas behind three peers behind HAProxy far over
// capacity. Of two tenants one has nine in ten of the clients and claims the
// best priority; the other one must not notice it much, and its urgent requests
// less. Whoever is not answered is told when to come again, and afterwards
// nothing is left and all counts agree.
func TestSaturation(t *testing.T) {
	lookup(t, "haproxy")
	greedy, greedyLine := access.NewKey("greedy")
	modest, modestLine := access.NewKey("modest")
	keys := writeFile(t, greedyLine+"\n"+modestLine+"\n")
	var replicas []*process
	for i := range 2 {
		replicas = append(replicas, replicaProcess(t, fmt.Sprintf("r%d", i), "--max-num-seqs", strconv.Itoa(seats)))
	}
	peers := knowing(t, meshWith(t, 3, fmt.Sprintf(`auth: {keys_file: %q}
admission: {replica_limit: %d, classes: 2, default_class: 1, priority_header: X-Priority, key_classes: {modest: 0, greedy: 1}}
limits: {queue: %d, queue_timeout: 60s}
`, keys, seats, lineLength), replicas...))
	var servers []string
	for _, p := range peers {
		servers = append(servers, p.said["http"])
	}
	front := startHAProxy(t, servers)
	for slot := range servers {
		front.waitUp(slot)
	}

	seen := watchSeats(replicas)
	all := drive(front.url(),
		crowd{"greedy", 72, greedy, "0"}, // only its key says otherwise
		crowd{"modest", 6, modest, "1"},
		crowd{"urgent", 2, modest, "0"})
	held := seen()

	sent, answered, refused := 0, 0, 0
	each := map[string]float64{} // answers a client
	for name, n := range map[string]int{"greedy": 72, "modest": 6, "urgent": 2} {
		o := all[name]
		for _, err := range o.lost {
			t.Errorf("%s: %v", name, err)
		}
		answered, refused, sent = answered+o.answered, refused+o.refused, sent+o.answered+o.refused+len(o.lost)
		each[name] = float64(o.answered) / float64(n)
		t.Logf("%s: %d clients, %d answered, %d told to come again, %.0f ms an answer",
			name, n, o.answered, o.refused, float64(o.waited.Milliseconds())/float64(max(o.answered, 1)))
	}
	t.Logf("%d requests, %d answered, %d refused", sent, answered, refused)
	looks, over := 0, 0
	for n, times := range held {
		looks, over = looks+times, over+times*max(0, n-seats)
	}
	t.Logf("a replica of %d places held 0, 1, 2 … requests in %v of %d looks: %.2f too many on average", seats, held, looks, float64(over)/float64(looks))
	if answered < manyAnswers/2 || all["greedy"].refused == 0 {
		t.Fatalf("%d answers and %d refusals: this was no saturation", answered, all["greedy"].refused)
	}
	if all["modest"].refused+all["urgent"].refused > 0 {
		t.Errorf("the modest tenant was turned away %d and %d times", all["modest"].refused, all["urgent"].refused)
	}
	// One line for all would give every client the same, and a tenant of 8 in 80
	// a tenth. Two tenants that both wait get a half each, less what the modest
	// one does not ask for while its few clients are being answered.
	if share := float64(all["modest"].answered+all["urgent"].answered) / float64(answered); share < .2 {
		t.Errorf("the modest tenant got %.2f of the answers", share)
	}
	if each["modest"] < 2*each["greedy"] || each["urgent"] < 2*each["greedy"] {
		t.Errorf("answers a client: %v", each)
	}
	// At an idle replica every peer may find all places free; afterwards they
	// know of each other.
	if most := len(held) - 1; most > len(peers)*seats || float64(over) > seats/2.*float64(looks) {
		t.Errorf("replicas held up to %d requests, and %.2f too many on average; the limit is %d", most, float64(over)/float64(looks), seats)
	}
	judgeCounts(t, peers, replicas, answered, refused)
	for _, p := range peers {
		p.stop()
	}
}

// judgeCounts holds that nothing is left and that every count agrees with what
// the clients were told.
func judgeCounts(t *testing.T, peers, replicas []*process, answered, refused int) {
	t.Helper()
	eventually(t, "nobody waits and nothing is in flight", func() bool {
		for _, p := range peers {
			st := p.status()
			if st == nil || st.Queue.Waiting != 0 || st.Queue.InFlight != 0 || p.inflight() != 0 {
				return false
			}
		}
		return true
	})
	ok, shed, turnedAway, finished := 0, 0, 0, 0
	for _, p := range peers {
		text := adminGet(t, "http://"+p.said["admin"]+"/metrics")
		ok += series(text, "banyan_requests_total", `code="200"`)
		shed += series(text, "banyan_requests_total", `code="429"`)
		if n := series(text, "banyan_queue_depth", ""); n != 0 {
			t.Errorf("%s: a queue of %d", p.said["http"], n)
		}
		var st console.Status
		raw := told(t, "status", "--peer", p.said["admin"], "--json")
		if err := json.Unmarshal([]byte(raw), &st); err != nil {
			t.Fatalf("%v: %s", err, raw)
		}
		turnedAway += int(st.Queue.Refused())
		for how, n := range st.Queue.Outcomes {
			if counted := series(text, "banyan_queue_total", fmt.Sprintf("outcome=%q", how)); counted != int(n) {
				t.Errorf("%s: status says %d, metrics say %d", how, n, counted)
			}
		}
		if page := told(t, "status", "--peer", p.said["admin"]); !strings.Contains(page, "0 waiting by class [0 0]") {
			t.Errorf("the status does not tell of the queue:\n%s", page)
		}
		told(t, "status", "--peer", p.said["admin"], "--check", "--wait", "60s")
	}
	for _, r := range replicas {
		finished += series(adminGet(t, "http://"+r.said["http"]+"/metrics"), "vllm:request_success_total", "")
	}
	if ok != answered || shed != refused || turnedAway != refused || finished != answered {
		t.Errorf("clients had %d answers and %d refusals; peers count %d and %d (%d in queues), engines %d", answered, refused, ok, shed, turnedAway, finished)
	}
}

// drive lets the crowds ask until there are enough answers, and waits for the
// last ones.
func drive(url string, crowds ...crowd) map[string]*outcomes {
	var mu sync.Mutex // guards below
	var wg sync.WaitGroup
	out, total, end := map[string]*outcomes{}, 0, time.Now().Add(longest)
	for _, c := range crowds {
		o := &outcomes{}
		out[c.name] = o
		for i := range c.clients {
			wg.Go(func() {
				for n, more := 0, true; more; n++ {
					at := time.Now()
					status, err := c.ask(url, fmt.Sprintf("%s %d asks for the %dth time: ", c.name, i, n))
					mu.Lock()
					switch {
					case err != nil:
						o.lost = append(o.lost, err)
					case status == http.StatusOK:
						o.answered, total, o.waited = o.answered+1, total+1, o.waited+time.Since(at)
					default:
						o.refused++
					}
					more = err == nil && total < manyAnswers && time.Now().Before(end)
					mu.Unlock()
					if status == http.StatusTooManyRequests {
						time.Sleep(150 * time.Millisecond) // sooner than it was told
					}
				}
			})
		}
	}
	wg.Wait()
	return out
}

// ask sends one request. All of a crowd's cost the same.
func (c crowd) ask(url, text string) (status int, err error) {
	body, err := json.Marshal(map[string]any{
		"model": "m", "messages": []message{{"user", text + strings.Repeat("words ", 50)}}, "max_tokens": 30, "ignore_eos": true,
		"stream": true, "stream_options": map[string]bool{"include_usage": true},
	})
	if err != nil {
		return 0, err
	}
	// A body that cannot be read twice: net/http must not retry silently.
	req, err := http.NewRequest(http.MethodPost, url+"/v1/chat/completions", io.NopCloser(bytes.NewReader(body)))
	if err != nil {
		return 0, err
	}
	req.ContentLength, req.Close = int64(len(body)), true
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("X-Priority", c.priority)
	client := http.Client{Timeout: time.Minute}
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK:
		text, err := new(asked).read(res.Body)
		if err == nil && text == "" {
			err = errors.New("an empty answer")
		}
		return res.StatusCode, err
	case http.StatusTooManyRequests:
		var shape struct {
			Error struct{ Message, Type, Code string }
		}
		seconds, err := strconv.Atoi(res.Header.Get("Retry-After"))
		if err == nil && (seconds < 1 || seconds > 60) {
			err = fmt.Errorf("Retry-After: %d", seconds)
		}
		if jsonErr := json.NewDecoder(res.Body).Decode(&shape); err == nil && (jsonErr != nil || shape.Error.Code != "overloaded") {
			err = fmt.Errorf("429 with %+v: %w", shape, jsonErr)
		}
		return res.StatusCode, err
	}
	rest, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	return res.StatusCode, fmt.Errorf("status %d: %s", res.StatusCode, rest)
}

// watchSeats looks at the engines until the function it returns is called,
// which tells how often any of them was seen with so many requests.
func watchSeats(replicas []*process) (seen func() []int) {
	stop, out := make(chan struct{}), make(chan []int)
	go func() {
		var counts []int
		for {
			for _, r := range replicas {
				n := heldBy(r)
				counts = append(counts, make([]int, max(0, n+1-len(counts)))...)
				counts[n]++
			}
			select {
			case <-stop:
				out <- counts
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() []int {
		close(stop)
		return <-out
	}
}

// heldBy is how many requests an engine has now, running and waiting.
func heldBy(replica *process) (n int) {
	res, err := http.Get("http://" + replica.said["http"] + "/metrics")
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return series(string(text), "vllm:num_requests_running", "") + series(string(text), "vllm:num_requests_waiting", "")
}

// series sums a metric's values over the series that have a label.
func series(text, name, label string) (sum int) {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || !strings.ContainsAny(rest[:1], " {") || !strings.Contains(rest, label) {
			continue
		}
		fields := strings.Fields(rest)
		v, _ := strconv.ParseFloat(fields[len(fields)-1], 64)
		sum += int(v)
	}
	return sum
}

// told runs banyan and returns what it prints.
func told(t *testing.T, args ...string) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v\n%s", filepath.Base(path), strings.Join(slices.Clip(args), " "), err, out)
	}
	return string(out)
}
