package kvevents

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// vector is one line of vectors.jsonl.
type vector struct {
	ID      string          `json:"id"`
	Engine  string          `json:"engine"`
	Kind    string          `json:"kind"`
	Frames  []string        `json:"frames_hex"`
	Verdict string          `json:"verdict"`
	Decoded json.RawMessage `json:"decoded"`
}

// wantBatch is a vector's decoded content.
type wantBatch struct {
	Topic  *string           `json:"topic"`
	Seq    *uint64           `json:"seq"`
	TS     float64           `json:"ts"`
	Rank   *int              `json:"dp_rank"`
	Events []json.RawMessage `json:"events"`
	Kept   *int              `json:"kept_events"`
	Start  *uint64           `json:"start_seq"`
	JSON   []json.RawMessage `json:"json"`
}

// wantEvent is one decoded event. Hashes are "u64:", "i64:" or "bytes:".
type wantEvent struct {
	Type      string            `json:"type"`
	Hashes    []string          `json:"block_hashes"`
	Parent    *string           `json:"parent_block_hash"`
	Tokens    []json.RawMessage `json:"token_ids"`
	BlockSize int               `json:"block_size"`
	LoraID    *int64            `json:"lora_id"`
	LoraName  *string           `json:"lora_name"`
	Medium    *string           `json:"medium"`
	Extra     []json.RawMessage `json:"extra_keys"`
	Group     int32             `json:"group_idx"`
	Kind      string            `json:"kv_cache_spec_kind"`
	Window    int64             `json:"kv_cache_spec_sliding_window"`
	Locality  string            `json:"locality"`
	Ownership string            `json:"ownership"`
	Session   string            `json:"session_id"`
	Ahead     [][]uint32        `json:"lookahead_token_ids"`
	Salt      string            `json:"cache_salt"`
	Metadata  struct {
		Salt    string `json:"cache_salt"`
		Session string `json:"session_id"`
	} `json:"metadata"`
}

// readVectors reads a file of vectors.
func readVectors(t testing.TB, path string) []vector {
	t.Helper()
	out, err := loadVectors(path)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// loadVectors is readVectors with an error that names file and line.
func loadVectors(path string) ([]vector, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []vector
	s := bufio.NewScanner(f)
	s.Buffer(nil, 64<<20)
	line := 0
	for s.Scan() {
		line++
		if len(strings.TrimSpace(s.Text())) == 0 {
			continue
		}
		var v vector
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, line, err)
		}
		for _, frame := range v.Frames {
			if _, err := hex.DecodeString(frame); err != nil {
				return nil, fmt.Errorf("%s:%d: %s: %w", path, line, v.ID, err)
			}
		}
		if !slices.Contains([]string{"accept", "drop_event", "drop_message", "no_reply"}, v.Verdict) || len(v.Frames) == 0 {
			return nil, fmt.Errorf("%s:%d: %q has %d frames and the verdict %q", path, line, v.ID, len(v.Frames), v.Verdict)
		}
		out = append(out, v)
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", path, line+1, err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: no vectors", path)
	}
	return out, nil
}

// vectorFiles are our own file and those an environment variable names,
// separated by colons, commas or line ends. A relative name is looked for here
// and at the root of the module.
func vectorFiles(named string) []string {
	files := []string{"testdata/vectors.jsonl", "testdata/lookahead.jsonl"}
	for _, file := range strings.FieldsFunc(named, func(r rune) bool { return strings.ContainsRune(":,\n", r) }) {
		if file = strings.TrimSpace(file); file == "" {
			continue
		}
		if _, err := os.Stat(file); err != nil && !filepath.IsAbs(file) {
			if up := filepath.Join("..", "..", file); exists(up) {
				file = up
			}
		}
		files = append(files, file)
	}
	return files
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestVectorFilesAreAllReadOrNamed(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const good = `{"id":"a","kind":"live","verdict":"drop_message","frames_hex":["00"]}`
	a, b := write("a.jsonl", good+"\n\n"+good), write("b.jsonl", good)
	files := vectorFiles(a + ":" + b + ", " + a + "\n" + "router/kvevents/testdata/vectors.jsonl")
	if len(files) != 6 {
		t.Fatalf("%q", files)
	}
	for i, want := range []int{-1, 10, 2, 1, 2, -1} {
		if got, err := loadVectors(files[i]); err != nil || want >= 0 && len(got) != want || len(got) == 0 {
			t.Errorf("%s: %d vectors, %v", files[i], len(got), err)
		}
	}
	for name, tc := range map[string]struct{ path, want string }{
		"missing":       {vectorFiles(filepath.Join(dir, "none"))[2], "none: no such file"},
		"not JSON":      {write("c", good+"\n{"), "c:2:"},
		"not hex":       {write("d", `{"id":"x","kind":"live","verdict":"accept","frames_hex":["0z"]}`), "d:1: x"},
		"no verdict":    {write("e", "\n"+`{"id":"x","kind":"live","frames_hex":["00"]}`), "e:2:"},
		"other verdict": {write("f", `{"id":"x","verdict":"maybe","frames_hex":["00"]}`), `verdict "maybe"`},
		"empty":         {write("g", ""), "no vectors"},
	} {
		if _, err := loadVectors(tc.path); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// bytesOf decodes a vector's frames.
func (v *vector) bytesOf(t testing.TB) [][]byte {
	frames := make([][]byte, len(v.Frames))
	for i, s := range v.Frames {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		frames[i] = b
	}
	return frames
}

// TestVectors gives every vector its stated verdict and content. Further files
// may be named in BANYAN_VECTORS.
func TestVectors(t *testing.T) {
	for _, file := range vectorFiles(os.Getenv("BANYAN_VECTORS")) {
		for _, v := range readVectors(t, file) {
			t.Run(v.ID, func(t *testing.T) { checkVector(t, &v) })
		}
	}
}

// checkVector decodes one vector the way its kind is received.
func checkVector(t *testing.T, v *vector) {
	var want wantBatch
	if len(v.Decoded) > 0 {
		if err := json.Unmarshal(v.Decoded, &want); err != nil {
			t.Fatal(err)
		}
	}
	frames := v.bytesOf(t)
	switch v.Kind {
	case "live", "malformed":
		f, err := ParseLive(frames)
		checkMessage(t, v, &want, f, err)
	case "replay4", "replay5":
		f, err := ParseReplay(frames)
		checkMessage(t, v, &want, f, err)
	case "replay_end":
		if f, err := ParseReplay(frames); err != nil || !f.End {
			t.Fatalf("end marker: %+v, %v", f, err)
		}
	case "replay_request":
		from, err := ParseReplayRequest(frames)
		if (err == nil) != (v.Verdict == "accept") {
			t.Fatalf("verdict %s: %v", v.Verdict, err)
		}
		if err == nil && want.Start != nil && from != *want.Start {
			t.Fatalf("start %d, want %d", from, *want.Start)
		}
	case "http_json":
		checkTRT(t, v, &want, frames[0])
	default:
		t.Fatalf("unknown kind %q", v.Kind)
	}
}

// checkMessage holds one live or replayed message against its vector.
func checkMessage(t *testing.T, v *vector, want *wantBatch, f Frame, err error) {
	var d Decoder
	var b *Batch
	if err == nil {
		b, err = d.Decode(f.Payload)
	}
	if v.Verdict == "drop_message" {
		if err == nil {
			t.Fatalf("accepted: %+v", b)
		}
		return
	}
	if err != nil {
		t.Fatalf("verdict %s: %v", v.Verdict, err)
	}
	if (v.Verdict == "drop_event") != (b.Dropped > 0) {
		t.Fatalf("verdict %s, but %d events dropped (%v)", v.Verdict, b.Dropped, b.FirstFault)
	}
	if want.Kept != nil && len(b.Events) != *want.Kept {
		t.Fatalf("%d events kept, want %d (dropped %d: %v)", len(b.Events), *want.Kept, b.Dropped, b.FirstFault)
	}
	if want.Events == nil {
		return
	}
	rank := -1
	if want.Rank != nil {
		rank = *want.Rank
	}
	if want.Seq != nil && f.Seq != *want.Seq || want.Topic != nil && string(f.Topic) != *want.Topic && v.Kind != "replay4" ||
		b.Rank != rank || b.TS != int64(math.Round(want.TS*1e6)) {
		t.Errorf("topic %q seq %d rank %d ts %d", f.Topic, f.Seq, b.Rank, b.TS)
	}
	if len(b.Events) != len(want.Events) {
		t.Fatalf("%d events, want %d", len(b.Events), len(want.Events))
	}
	for i, raw := range want.Events {
		var e wantEvent
		if err := json.Unmarshal(raw, &e); err != nil {
			t.Fatal(err)
		}
		checkEvent(t, &b.Events[i], &e)
	}
}

// checkEvent compares one event field by field.
func checkEvent(t *testing.T, got *Event, want *wantEvent) {
	types := map[EventType]string{Stored: tagStored, Removed: tagRemoved, Cleared: tagCleared}
	equal := func(what string, got, want any) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	equal("type", types[got.Type], want.Type)
	hashes := make([]uint64, len(want.Hashes))
	for i, h := range want.Hashes {
		hashes[i] = handleOf(t, h)
	}
	equal("hashes", fmt.Sprint(got.Hashes), fmt.Sprint(hashes))
	equal("has parent", got.HasParent, want.Parent != nil)
	if want.Parent != nil {
		equal("parent", got.Parent, handleOf(t, *want.Parent))
	}
	if describesPrefix(want.Kind) {
		equal("tokens", fmt.Sprint(got.Tokens), fmt.Sprint(tokensOf(t, want.Tokens)))
	} else {
		equal("tokens of a group that is no prefix", len(got.Tokens), 0)
	}
	equal("block size", got.BlockSize, want.BlockSize)
	equal("lora", got.Lora, wantLora(want))
	if want.Medium != nil {
		equal("medium", got.Medium, *want.Medium)
	} else {
		equal("medium", got.Medium, "")
	}
	equal("group", got.Group, want.Group)
	equal("kind", got.Kind, want.Kind)
	equal("window", got.Window, want.Window)
	equal("locality", got.Locality, want.Locality)
	equal("ownership", got.Ownership, want.Ownership)
	equal("session", got.Session, want.Session+want.Metadata.Session)
	var ahead []uint32
	for _, list := range want.Ahead {
		ahead = append(ahead, list[0])
	}
	equal("tokens behind the pages", got.Ahead, ahead)
	checkExtra(t, got, want)
}

// wantLora is the adapter's name in our words.
func wantLora(want *wantEvent) string {
	switch {
	case want.LoraName != nil:
		return *want.LoraName
	case want.LoraID != nil:
		return "lora_id=" + strconv.FormatInt(*want.LoraID, 10)
	}
	return ""
}

// checkExtra checks salt and per-block extras: adapter and salt are taken out,
// the rest stays.
func checkExtra(t *testing.T, got *Event, want *wantEvent) {
	salt := want.Salt + want.Metadata.Salt
	rest := 0
	for i, raw := range want.Extra {
		var keys []any
		if err := json.Unmarshal(raw, &keys); err != nil {
			t.Fatal(err)
		}
		kept := false
		for _, k := range keys {
			s, isString := k.(string)
			pair, _ := k.([]any)
			switch {
			case want.Ahead != nil && len(pair) == 2 && pair[1].(float64) >= float64(want.BlockSize): // it is behind the page
			case isString && s == got.Lora:
			case isString && i == 0 && want.Parent == nil && !strings.HasPrefix(s, "bytes:"):
				salt = s
			default:
				kept = true
			}
		}
		if kept {
			rest++
		}
		if len(got.Extra) > 0 && (len(got.Extra[i]) > 0) != kept {
			t.Errorf("block %d: extra %q, want any: %v", i, got.Extra[i], kept)
		}
	}
	if got.Salt != salt {
		t.Errorf("salt %q, want %q", got.Salt, salt)
	}
	if (len(got.Extra) > 0) != (rest > 0) {
		t.Errorf("extras %q, want %d blocks with some", got.Extra, rest)
	}
}

// tokensOf reads token ids; of a pair the first.
func tokensOf(t *testing.T, raw []json.RawMessage) []uint32 {
	out := []uint32{}
	for _, r := range raw {
		var one uint32
		var pair []uint32
		if json.Unmarshal(r, &one) != nil {
			if err := json.Unmarshal(r, &pair); err != nil {
				t.Fatal(err)
			}
			one = pair[0]
		}
		out = append(out, one)
	}
	return out
}

// handleOf reads the vectors' way of writing hashes.
func handleOf(t *testing.T, s string) uint64 {
	kind, digits, _ := strings.Cut(s, ":")
	switch kind {
	case "u64":
		v, err := strconv.ParseUint(digits, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	case "i64":
		v, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return uint64(v)
	}
	b, err := hex.DecodeString(digits)
	if err != nil {
		t.Fatal(err)
	}
	var v uint64
	for _, x := range b[max(0, len(b)-8):] {
		v = v<<8 | uint64(x)
	}
	return v
}

// checkTRT holds a polled answer against its vector.
func checkTRT(t *testing.T, v *vector, want *wantBatch, body []byte) {
	events, nameless, err := DecodeTRT(body)
	if v.Verdict == "drop_message" {
		if err == nil {
			t.Fatalf("accepted: %+v", events)
		}
		return
	}
	if v.Verdict == "drop_event" && err == nil {
		kept := len(events)
		for i := range events {
			kept -= events[i].Batch.Dropped
		}
		if kept == len(events) && nameless == 0 || want.Kept != nil && kept != *want.Kept {
			t.Fatalf("%d of %d events kept, %d without id", kept, len(events), nameless)
		}
		return
	}
	if err != nil || nameless != 0 {
		t.Fatalf("verdict %s: %v, %d without id", v.Verdict, err, nameless)
	}
	if len(events) != len(want.JSON) {
		t.Fatalf("%d events, want %d", len(events), len(want.JSON))
	}
	for i, raw := range want.JSON {
		checkTRTEvent(t, &events[i], raw)
	}
}

// checkTRTEvent compares handles, parent and tokens of one element.
func checkTRTEvent(t *testing.T, got *TRTEvent, raw json.RawMessage) {
	var want struct {
		ID   uint64 `json:"event_id"`
		Rank int    `json:"attention_dp_rank"`
		Win  int64  `json:"window_size"`
		Data struct {
			Type   string   `json:"type"`
			Parent *uint64  `json:"parent_hash"`
			Hash   uint64   `json:"block_hash"`
			Hashes []uint64 `json:"block_hashes"`
			Blocks []struct {
				Hash   uint64 `json:"block_hash"`
				Tokens []struct {
					ID uint32 `json:"token_id"`
				} `json:"tokens"`
			} `json:"blocks"`
		} `json:"data"`
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if got.ID != want.ID || got.Rank != want.Rank || got.Window != want.Win || got.Batch.Dropped != 0 {
		t.Fatalf("got %+v, want id %d rank %d window %d", got, want.ID, want.Rank, want.Win)
	}
	events := got.Batch.Events
	switch want.Data.Type {
	case "created":
		if len(events) != 1 || events[0].Type != Cleared {
			t.Fatalf("created: %+v", events)
		}
	case "stored":
		var hashes []uint64
		var tokens []uint32
		for _, b := range want.Data.Blocks {
			hashes = append(hashes, b.Hash)
			for _, tok := range b.Tokens {
				tokens = append(tokens, tok.ID)
			}
		}
		if len(events) != 1 || !slices.Equal(events[0].Hashes, hashes) || !slices.Equal(events[0].Tokens, tokens) ||
			events[0].HasParent != (want.Data.Parent != nil) || want.Data.Parent != nil && events[0].Parent != *want.Data.Parent {
			t.Fatalf("stored: %+v", events)
		}
	case "removed":
		if len(events) != 1 || events[0].Type != Removed || !slices.Equal(events[0].Hashes, want.Data.Hashes) {
			t.Fatalf("removed: %+v", events)
		}
	case "updated":
		for _, e := range events {
			if !slices.Equal(e.Hashes, []uint64{want.Data.Hash}) {
				t.Fatalf("updated: %+v", events)
			}
		}
	}
}
