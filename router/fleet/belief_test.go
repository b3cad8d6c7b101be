package fleet

import (
	"testing"
	"time"
)

// Promises of cached tokens that do not come true are counted, of the last 32;
// what is no lie is not: one page less, more than was promised, short prompts,
// answers of a process that is gone.
func TestPromisesThatDoNotComeTrueAreCounted(t *testing.T) {
	f := New(Config{})
	f.Set([]Spec{{URL: "http://a:1"}}, time.Now())
	r := f.List()[0]
	r.note(Facts{BlockSize: 16})
	count := func(times, matched, cached int) (untrue, checked int) {
		for range times {
			r.NoteMatch(matched, cached)
		}
		return r.Untrue()
	}
	if untrue, checked := count(40, 48, 0); checked != 0 {
		t.Errorf("three pages are no promise: %d of %d", untrue, checked)
	}
	for cached := range 200 {
		count(1, 64, 48+cached)
	}
	if untrue, checked := r.Untrue(); untrue != 0 || checked != 32 {
		t.Errorf("a page less, or more than promised: %d of %d", untrue, checked)
	}
	if untrue, checked := count(10, 160, 80); untrue != 10 || checked != 32 {
		t.Errorf("half of what was promised: %d of %d", untrue, checked)
	}
	if untrue, _ := count(32, 160, 160); untrue != 0 {
		t.Errorf("it mended: %d", untrue)
	}
	count(20, 160, 0)
	r.Began(1)
	if untrue, _ := r.Untrue(); untrue != 20 {
		t.Errorf("the first epoch is no other process: %d", untrue)
	}
	r.Began(2)
	if untrue, checked := r.Untrue(); untrue+checked != 0 {
		t.Errorf("another process: %d of %d", untrue, checked)
	}
	count(20, 160, 0)
	r.Fail(time.Now(), true, "connection refused")
	r.OK(time.Now())
	if untrue, checked := r.Untrue(); untrue+checked != 0 {
		t.Errorf("after it was down: %d of %d", untrue, checked)
	}
}
