// Package admission decides who goes next when there is not room for all: a
// bounded queue with strict priority classes and, inside a class, fair shares
// between tenants.
//
// It owns the order and the bounds. It does not know requests, replicas,
// clocks or goroutines: time comes in, waiters go out, and whoever holds a
// Queue guards it.
//
// Inside a class it is start-time fair queueing (Goyal, Vin, Cheng 1996) over
// the cost of requests in tokens, as "Fairness in Serving Large Language
// Models" (Sheng et al. 2024) counts it: a tenant pays for what was let in, so
// who comes back later has no debt and no credit for the time away. Tags are
// kept per tenant and not per request, hence a waiter that leaves costs its
// tenant nothing.
//
// A turn goes before the tenant's own new conversations because what it needs
// is cached now and may not be later: while a new one takes its place its prefix
// is pushed out, and must be computed again. A tenant that calls all of its
// requests turns gains nothing over other tenants.
//
// Invariants, each held by a test of the same number:
//
//	A1  At most Limit wait, and at most TenantLimit of one tenant.
//	A2  Of two tenants of one class that both wait, neither has been let in
//	    for more than the other by more than the cost of one request of each.
//	A3  While a better class waits, at most one in reliefEvery goes to
//	    another; and so many do, so that no class starves.
//	A4  Within a tenant and class turns of conversations that go on come before
//	    new ones, until a new one has waited for half of the time it has; among
//	    themselves it is first come, first served.
//	A5  Every waiter leaves exactly once: let in, removed, displaced or
//	    expired. Nobody is let in after its deadline.
//	A6  What is remembered of tenants that do not wait is bounded.
package admission
