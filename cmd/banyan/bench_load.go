package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/banyan-llm/banyan/simulation/client"
	"github.com/banyan-llm/banyan/simulation/load"
	"github.com/banyan-llm/banyan/simulation/workload"
)

// loading is `banyan load`.
type loading struct {
	source  source
	url     string
	model   string
	keyFile string
	fresh   bool
	eos     bool
	vocab   int
	shrink  float64
	most    int // failures
	timeout time.Duration
	asJSON  bool
	cfg     load.Config
}

func (l *loading) register(fs *flag.FlagSet) {
	l.source.register(fs, "demo")
	fs.StringVar(&l.url, "url", "", "base `URL` of any OpenAI endpoint, with or without /v1 (required)")
	fs.StringVar(&l.model, "model", "", "model to ask for; default: the first that the endpoint lists")
	fs.StringVar(&l.keyFile, "key-file", "", "`file` with the bearer key")
	fs.BoolVar(&l.fresh, "new-connections", false, "open a new connection for every request, as many clients would")
	fs.BoolVar(&l.eos, "ignore-eos", false, "ask vLLM to generate all of max_tokens (ignore_eos)")
	fs.IntVar(&l.vocab, "vocabulary", 0, "send completion prompts as random token ids below this, the size of the model's vocabulary; 0 = send text")
	fs.Float64Var(&l.shrink, "shrink", 1, "divide all lengths, pauses and arrival times by this: a small machine plays a large fleet's sessions")
	fs.IntVar(&l.most, "max-failures", 0, "exit 1 if more requests fail")
	fs.DurationVar(&l.timeout, "timeout", client.DefaultTimeout, "time limit of one request, response included")
	fs.BoolVar(&l.asJSON, "json", false, "print one JSON object")
	fs.Float64Var(&l.cfg.Rate, "rate", 0, "requests a second, open loop; 0 = the workload's own rate")
	fs.IntVar(&l.cfg.Concurrency, "concurrency", 0, "closed loop: keep this many in flight, without think times")
	fs.DurationVar(&l.cfg.Duration, "duration", 0, "send nothing after this; 0 = the whole workload")
	fs.IntVar(&l.cfg.InFlight, "max-in-flight", load.DefaultInFlight, "open loop: at most this many requests in flight; requests due beyond that are skipped and counted")
	fs.BoolVar(&l.cfg.Steady, "steady", true, "open loop, generated workloads: start sessions in the middle, with their history, as after a long run; false = every session starts at its first turn")
	fs.StringVar(&l.cfg.Policy, "policy", "", "ask Banyan for this policy (X-Banyan-Policy)")
}

// check reports every fault of the command line, given those of its form, and
// reads the workload.
func (l *loading) check(fs *flag.FlagSet, given error) error {
	faults := []error{given, l.checkURL()}
	if l.vocab < 0 || l.vocab > math.MaxInt32 {
		faults = append(faults, fmt.Errorf("vocabulary: %d is out of range", l.vocab))
	}
	if l.most < 0 {
		faults = append(faults, fmt.Errorf("max-failures: %d is negative", l.most))
	}
	if l.timeout <= 0 {
		faults = append(faults, fmt.Errorf("timeout: %v is out of range", l.timeout))
	}
	if l.source.requests == 0 && l.source.trace == "" {
		l.source.requests = l.enough()
	}
	w, err := l.source.read()
	faults = append(faults, err)
	if given == nil {
		faults = append(faults, noArguments(fs))
	}
	if !(l.shrink >= 1 && l.shrink <= 1000) {
		faults = append(faults, fmt.Errorf("shrink: %v is not from 1 to 1000", l.shrink))
	} else if w != nil {
		w.Shrink(l.shrink)
	}
	l.cfg.Workload, l.cfg.Seed = w, l.source.seed
	l.cfg.Steady = l.cfg.Steady && l.source.trace == ""
	key := ""
	if l.keyFile != "" {
		text, err := os.ReadFile(l.keyFile)
		faults = append(faults, err)
		key = strings.TrimSpace(string(text))
	}
	faults = append(faults, l.cfg.CheckFigures())
	if w != nil && len(w.Requests) == 0 {
		faults = append(faults, errors.New("workload: no requests"))
	}
	if err := errors.Join(faults...); err != nil {
		return usageError{err}
	}
	l.cfg.Client = client.New(l.url, l.fresh)
	l.cfg.Client.Key, l.cfg.Client.Timeout = key, l.timeout
	return nil
}

// checkURL says what --url is to name.
func (l *loading) checkURL() error {
	const want = "--url names the base of any OpenAI endpoint, as http://127.0.0.1:8080 (a Banyan peer's http.listen)"
	u, err := url.Parse(l.url)
	switch {
	case l.url == "":
		return errors.New("url: required: " + want)
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("url: %q is no http or https address: %s", l.url, want)
	}
	return nil
}

// maxEnough bounds the workload that is made for a rate and a duration.
const maxEnough = 1_000_000

// enough is how many requests last for the asked duration at the asked rate; 0
// leaves it to the workload.
func (l *loading) enough() int {
	n := l.cfg.Rate * l.cfg.Duration.Seconds()
	if !(n > 0) {
		return 0
	}
	return int(math.Min(math.Ceil(1.1*n)+10, maxEnough))
}

// runLoad drives an endpoint with a workload and tells what its user felt.
func runLoad(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flagSet("load", stdout)
	var l loading
	l.register(fs)
	given := parse(fs, args)
	if errors.Is(given, flag.ErrHelp) {
		return given
	}
	if err := l.check(fs, given); err != nil {
		return err
	}
	defer l.cfg.Client.Close()
	if err := l.meet(ctx, stderr); err != nil {
		return err
	}
	l.cfg.Writer = &client.Writer{Model: l.model, Vocab: l.vocab, IgnoreEOS: l.eos}
	l.cfg.Session = fmt.Sprintf("load-%d", time.Now().UnixNano())
	tick := newTicker(stderr)
	start := time.Now()
	l.cfg.Progress = func(p load.Progress) {
		tick.tick("%.0f s: %d of %d sent, %d answered, %d failed, %d in flight, last first token after %s",
			time.Since(start).Seconds(), p.Sent, p.All, p.Over, p.Failed, p.InFlight, p.TTFT.Round(time.Millisecond/10))
	}
	report, err := load.Run(ctx, l.cfg)
	tick.done()
	if err != nil {
		return err
	}
	return l.tell(&report, stdout)
}

// meet asks what the endpoint serves, and keeps the workload inside the model's
// context where that is told. With --model an endpoint need not answer.
func (l *loading) meet(ctx context.Context, stderr io.Writer) error {
	models, err := l.cfg.Client.Models(ctx)
	switch {
	case l.model == "" && err != nil:
		return fmt.Errorf("%w (%s)", err, l.hint(err))
	case l.model == "":
		l.model = models[0].ID
	}
	context := 0
	for _, m := range models {
		if m.ID == l.model {
			context = m.MaxLen
		}
	}
	if context <= 0 {
		return nil
	}
	per := 1.0
	longest := 0
	for i := range l.cfg.Workload.Requests {
		longest = max(longest, l.cfg.Workload.Requests[i].Tokens+l.cfg.Workload.Requests[i].Output)
	}
	if l.vocab == 0 && 2*usualPerWord*longest > context { // else there is room however many
		per = l.perWord(ctx)
	}
	const room = .95 // for the template of a chat, and for answers as they come
	if n := l.cfg.Workload.Fit(int(room*float64(context)), per); n > 0 {
		fmt.Fprintf(stderr, "banyan load: %d of %d requests were shortened to the context of %s, %d tokens\n", n, len(l.cfg.Workload.Requests), l.model, context)
	}
	return nil
}

// usualPerWord is how many tokens a made-up word is mostly.
const usualPerWord = 3

// perWord asks the engine how many of its tokens a word of ours is.
func (l *loading) perWord(ctx context.Context) float64 {
	const words = 64
	probe := client.Writer{Model: l.model}
	path, body, err := probe.Body(&workload.Request{Prompt: []workload.Segment{{ID: 1, Tokens: words}}, Tokens: words, Output: 1})
	if err != nil {
		return usualPerWord
	}
	a := l.cfg.Client.Once(ctx, path, body, nil)
	if a.Err != nil || a.Prompt <= 0 {
		return usualPerWord
	}
	return float64(a.Prompt) / words
}

// hint says what to look at when the endpoint lists no models.
func (l *loading) hint(err error) string {
	if _, ok := errors.AsType[*url.Error](err); ok {
		return "does a server run there? --url names its base, --model skips this question"
	}
	if status, ok := errors.AsType[client.ModelsStatus](err); ok && status == http.StatusUnauthorized {
		if l.keyFile != "" {
			return "the endpoint does not know the key in " + l.keyFile
		}
		return "the endpoint wants a key: --key-file FILE"
	}
	return "is " + l.url + " the base of an OpenAI endpoint, as http.listen of a peer? --model skips this question"
}

// tell prints the report. A run with too many failures, or without a single
// answer, has failed.
func (l *loading) tell(report *load.Report, stdout io.Writer) error {
	var err error
	if l.asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		err = enc.Encode(report)
	} else {
		err = report.Write(stdout)
	}
	failed := report.Failed - report.Failures[client.CauseStopped]
	if err == nil && (report.Completed == 0 || failed > l.most) {
		return errCheck
	}
	return err
}
