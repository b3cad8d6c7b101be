package fleet

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Bounds and times of Kubernetes discovery.
const (
	maxListBytes  = 32 << 20 // one page of pods
	maxEventBytes = 4 << 20  // one line of a watch; etcd holds no object above 1.5 MB
	listPage      = 500      // pods a page
	listTimeout   = 30 * time.Second
	watchLeast    = 4 * time.Minute // the server ends a watch after this and up to a minute more
	watchGrace    = 15 * time.Second
	maxWait       = 30 * time.Second
	// calm is how long nothing must have failed for waits to be short again.
	calm = 10 * time.Second
	// watchFailures is how many watches in a row may fail before the pods are
	// listed anew.
	watchFailures = 5
)

// Kubernetes lists the pods that match a selector as replicas and follows them
// by a watch. It is the two calls a router needs of a client library that
// would be larger than the router.
//
//	list --> watch from its version --> (end of time, cut) --> watch from the last version
//	  ^                                                                  |
//	  +------------- 410 gone, garbage, or too many failures ------------+
type Kubernetes struct {
	API       string // base URL of the API server
	Namespace string // empty: all
	Selector  string // label selector
	Port      int    // of the pods' OpenAI API
	Template  Template
	Token     func() (string, error) // read anew for every call, tokens rotate; nil: none
	Client    *http.Client           // without a time-out: watches last
	Wait      time.Duration          // after the first failure, doubling to 30 s; default 500 ms
	Logger    hclog.Logger           // nil: silent

	trouble atomic.Pointer[string]
}

// Trouble says why the list may be old; empty if it is not.
func (k *Kubernetes) Trouble() string {
	if s := k.trouble.Load(); s != nil {
		return *s
	}
	return ""
}

// Run tells update which replicas there are until ctx ends. What cannot be
// read changes nothing (I6).
func (k *Kubernetes) Run(ctx context.Context, update func([]Spec)) {
	known := pods{}
	wait := k.firstWait()
	for ctx.Err() == nil {
		began := time.Now()
		fresh, version, err := k.list(ctx, known)
		if err == nil {
			known = fresh
			update(k.specs(known))
			k.say(nil)
			err = k.follow(ctx, known, version, update)
		}
		if time.Since(began) > calm {
			wait = k.firstWait()
		}
		if !errors.Is(err, errGone) {
			k.say(err)
		}
		pause(ctx, wait)
		wait = min(2*wait, maxWait)
	}
}

func (k *Kubernetes) specs(known pods) []Spec {
	return known.specs(k.Port, &k.Template, k.Namespace == "")
}

func (k *Kubernetes) firstWait() time.Duration { return cmp.Or(k.Wait, 500*time.Millisecond) }

// pause waits between half and all of d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d/2 + time.Duration(rand.Int64N(int64(d/2)+1)))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// say remembers and logs a change of fortune.
func (k *Kubernetes) say(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if was := k.Trouble(); was != text && k.Logger != nil {
		logTrouble(k.Logger, "kubernetes", text)
	}
	k.trouble.Store(&text)
}

// follow watches from a version on, over as many connections as that takes. It
// returns when the pods must be listed again.
func (k *Kubernetes) follow(ctx context.Context, known pods, version string, update func([]Spec)) error {
	wait, failures := k.firstWait(), 0
	for {
		begin, began := version, time.Now()
		err := k.watch(ctx, known, &version, update)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errGone) || errors.Is(err, errEvent):
			return err
		case version != begin || time.Since(began) > calm:
			wait, failures = k.firstWait(), 0
			if err == nil {
				continue
			}
		}
		if err != nil {
			k.say(err)
			if failures++; failures >= watchFailures {
				return err
			}
		}
		pause(ctx, wait)
		wait = min(2*wait, maxWait)
	}
}

// list reads all pods, page by page. known says which were ready before.
func (k *Kubernetes) list(ctx context.Context, known pods) (pods, string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	out := pods{}
	query := url.Values{"limit": {strconv.Itoa(listPage)}}
	for {
		var page struct {
			Metadata struct {
				ResourceVersion string `json:"resourceVersion"`
				Continue        string `json:"continue"`
			} `json:"metadata"`
			Items []*pod `json:"items"`
		}
		body, err := k.call(ctx, query)
		if err != nil {
			return nil, "", err
		}
		err = readJSON(body, maxListBytes, &page)
		body.Close()
		if err != nil {
			return nil, "", fmt.Errorf("list pods: %w", err)
		}
		if page.Metadata.ResourceVersion == "" {
			return nil, "", errors.New("list pods: the answer is no list")
		}
		for _, p := range page.Items {
			if p == nil || p.Metadata.Name == "" {
				continue
			}
			if old := known[p.key()]; old != nil {
				out[p.key()] = old
			}
			out.put(p)
		}
		if page.Metadata.Continue == "" {
			return out, page.Metadata.ResourceVersion, nil
		}
		if len(out) >= maxPods {
			return nil, "", fmt.Errorf("list pods: the selector matches more than %d", maxPods)
		}
		query.Set("continue", page.Metadata.Continue)
	}
}

// watch follows one connection. It moves version on, and returns nil when the
// server ended the watch in time.
func (k *Kubernetes) watch(ctx context.Context, known pods, version *string, update func([]Spec)) error {
	last := watchLeast + time.Duration(rand.Int64N(int64(time.Minute)))
	ctx, cancel := context.WithTimeout(ctx, last+watchGrace)
	defer cancel()
	body, err := k.call(ctx, url.Values{
		"watch": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {*version},
		"timeoutSeconds": {strconv.Itoa(int(last.Seconds()))},
	})
	if err != nil {
		return err
	}
	defer body.Close()
	k.say(nil)
	r := bufio.NewReaderSize(body, 64<<10)
	dirty := false
	defer func() {
		if dirty {
			update(k.specs(known))
		}
	}()
	for {
		line, err := readLine(r, maxEventBytes)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("watch pods: %s", Cause(err))
		}
		if len(line) == 0 {
			continue
		}
		next, err := known.apply(line)
		if err != nil {
			return err
		}
		*version, dirty = next, true
		if r.Buffered() == 0 { // more is coming otherwise
			update(k.specs(known))
			dirty = false
		}
	}
}

// readLine reads one line of at most limit bytes, without its end. A line cut
// by the end of the stream is lost: io.EOF.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, errTooLarge
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return bytes.TrimSpace(line), nil
	}
}

func readJSON(body io.Reader, limit int64, into any) error {
	raw, err := io.ReadAll(io.LimitReader(body, limit+1))
	switch {
	case err != nil:
		return errors.New(Cause(err))
	case int64(len(raw)) > limit:
		return errTooLarge
	case json.Unmarshal(raw, into) != nil:
		return errors.New("the answer is not JSON")
	}
	return nil
}

// call asks for pods.
func (k *Kubernetes) call(ctx context.Context, query url.Values) (io.ReadCloser, error) {
	path := "/api/v1/pods"
	if k.Namespace != "" {
		path = "/api/v1/namespaces/" + url.PathEscape(k.Namespace) + "/pods"
	}
	query.Set("labelSelector", k.Selector)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(k.API, "/")+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, fmt.Errorf("kubernetes API: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	if k.Token != nil {
		token, err := k.Token()
		if err != nil {
			return nil, fmt.Errorf("kubernetes token: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := k.Client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("kubernetes API: %s", Cause(err))
	}
	if res.StatusCode == http.StatusOK {
		return res.Body, nil
	}
	res.Body.Close()
	if res.StatusCode == http.StatusGone {
		return nil, errGone
	}
	return nil, fmt.Errorf("kubernetes API: %s", res.Status)
}

// logTrouble logs that a source of replicas fails, or with no trouble that it
// works again.
func logTrouble(log hclog.Logger, source, trouble string) {
	if trouble == "" {
		log.Info(source+" discovery works again", "trouble", trouble)
		return
	}
	log.Warn(source+" discovery failed: the last list of replicas stays in use", "trouble", trouble)
}
