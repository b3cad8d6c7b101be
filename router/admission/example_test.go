package admission_test

import (
	"fmt"
	"time"

	"github.com/banyan-llm/banyan/router/admission"
)

// One tenant comes first with many requests, and still they take turns; an
// urgent request goes before both.
func Example() {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	q := admission.New(admission.Config{Classes: 2, Limit: 100})
	for range 3 {
		q.Push(now, admission.Request{Tenant: "many", Class: 1, Cost: 100})
	}
	q.Push(now, admission.Request{Tenant: "few", Class: 1, Cost: 100})
	q.Push(now, admission.Request{Tenant: "urgent", Class: 0, Cost: 100})
	for q.Len() > 0 {
		fmt.Println(q.Pop(now).Tenant)
	}
	// Output:
	// urgent
	// many
	// few
	// many
	// many
}
