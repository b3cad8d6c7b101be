package replica

import (
	"testing"
)

func TestSmoke(t *testing.T) {
	p, err := ProfileByName("demo")
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Config{Profile: p, Blocks: 64, EveryToken: true})
	if err != nil {
		t.Fatal(err)
	}
	keys := []uint64{1, 2, 3, 4, 5, 6}
	if err := r.Submit(0, Request{ID: 1, Prompt: 64, Output: 20, Keys: keys}); err != nil {
		t.Fatal(err)
	}
	if err := r.Submit(0, Request{ID: 2, Prompt: 64, Output: 20, Keys: keys}); err != nil {
		t.Fatal(err)
	}
	for {
		res, ok := r.Step(r.Next())
		if !ok {
			break
		}
		t.Log(res)
	}
	t.Logf("%+v", r.Stats())
}
