package access

import (
	"net/http"
	"strings"

	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/proxy"
)

// bearer is the key of an Authorization header.
func bearer(r *http.Request) (key string, ok bool) {
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(key), strings.EqualFold(scheme, "Bearer")
}

// clientKey is the key of a client: a bearer token, or what Anthropic's clients
// send.
func clientKey(r *http.Request) (key string, ok bool) {
	if key, ok := bearer(r); ok {
		return key, true
	}
	key = r.Header.Get("X-Api-Key")
	return key, key != ""
}

// GuardClients lets only requests with a known key through, and only for the
// tenant that the key stands for. The router's key is not for the replicas: it
// is taken off.
func (d *Doors) GuardClients(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rules := d.Rules()
		var who *Key
		if rules.Clients != nil {
			given, ok := clientKey(r)
			if who = rules.Clients.Find(given); !ok || who == nil {
				d.Refused("http", "key")
				w.Header().Set("WWW-Authenticate", "Bearer")
				d.TurnAway(w, r, http.StatusUnauthorized, "invalid_api_key", "no valid API key was given; send it as Authorization: Bearer KEY, or as x-api-key: KEY")
				return
			}
			r.Header.Del("Authorization")
			r.Header.Del("X-Api-Key")
			r = proxy.WithClient(r, who.Name, who.Tenant == "*") // a gateway's: the header says whose turn it is
		}
		if header := rules.TenantHeader; header != "" {
			if code, why := bindTenant(r.Header, header, who); why != "" {
				d.Refused("http", "tenant")
				d.TurnAway(w, r, code, "invalid_tenant", why)
				return
			}
			if !isolated(r.URL.Path) {
				d.TurnAway(w, r, http.StatusNotFound, "not_found", "where tenants are kept apart, this path is not served")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// isolated reports whether a path keeps tenants apart: its cache is salted, or
// nothing of a request stays; stored responses name their tenant; the models
// are everybody's.
func isolated(path string) bool {
	return openai.EndpointOf(path) != openai.Other || openai.StoredResponse(path) != "" ||
		path == "/v1/models" || strings.HasPrefix(path, "/v1/models/")
}

// bindTenant makes the tenant header say whose request it is. A key stands for
// the tenant of its line, or else for a tenant of its own name; only a key with
// tenant=* (of a gateway that knows its users), or a router without keys,
// believes the header. Two headers are refused: the other one may be a
// client's, let through by a gateway that adds its own.
func bindTenant(h http.Header, header string, who *Key) (code int, why string) {
	given := h.Values(header)
	if len(given) > 1 {
		return http.StatusBadRequest, "the header " + header + " is given twice"
	}
	if who == nil || who.Tenant == "*" {
		return 0, ""
	}
	tenant := who.Tenant
	if tenant == "" {
		tenant = who.Name
	}
	if len(given) == 1 && given[0] != tenant {
		return http.StatusForbidden, "this API key is of another tenant than the header " + header + " names"
	}
	h.Set(header, tenant)
	return 0, ""
}

// Refuse answers in the shape of the endpoint.
func Refuse(w http.ResponseWriter, r *http.Request, code int, name, message string) {
	e := openai.Error{Status: code, Type: "invalid_request_error", Code: name, Message: message}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(e.BodyFor(openai.EndpointOf(r.URL.Path)))
}
