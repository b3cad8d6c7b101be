package access

import "net/http"

// Rules are what the doors go by. They are immutable: a reload makes others.
type Rules struct {
	Clients, Admins Keys         // nil: no key is asked for
	HTTP, Admin     *Certificate // nil: the listener speaks no TLS
	TenantHeader    string       // names a request's tenant; empty: tenants are not kept apart
	Listen          string       // admin.listen
	Hosts           []string     // admin.hosts
	Origins         []string     // http.allowed_origins
}

// Doors lets requests in at the listeners.
type Doors struct {
	Rules func() *Rules // in force now
	// Refused counts a refusal; both words are one of Refusals.
	Refused func(listener, why string)
	// TurnAway answers a client that may not come in, Deny an operator.
	TurnAway func(w http.ResponseWriter, r *http.Request, code int, name, message string)
	Deny     func(w http.ResponseWriter, code int, err error)
}
