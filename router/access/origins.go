package access

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// AnyOrigin in a list of origins stands for all of them.
const AnyOrigin = "*"

// preflightSeconds is how long a browser may keep the answer to a preflight.
const preflightSeconds = "600"

// ValidateOrigin returns what is wrong with an entry of http.allowed_origins.
func ValidateOrigin(origin string) error {
	if origin == AnyOrigin {
		return nil
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || strings.Contains(origin, "*") || origin != u.Scheme+"://"+strings.ToLower(u.Host) {
		return fmt.Errorf("%q is neither * nor an origin as browsers spell it, like https://app.example.com: without a path, in small letters", origin)
	}
	return nil
}

// GuardOrigins lets pages of the listed origins call the API from a browser
// (CORS). It answers a browser's preflight itself, before keys are asked for, since
// a preflight carries none; and it marks every answer, refusals too, which
// browsers otherwise keep from the page.
func (d *Doors) GuardOrigins(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin, asked := r.Header.Get("Origin"), r.Header.Get("Access-Control-Request-Method")
		allowed := d.allowOrigin(w.Header(), origin)
		switch {
		case r.Method != http.MethodOptions || origin == "" || asked == "":
			next.ServeHTTP(w, r)
		case !allowed:
			d.Refused("http", "origin")
			d.TurnAway(w, r, http.StatusForbidden, "origin_not_allowed", "pages of this origin may not call this router: http.allowed_origins does not list it")
		default:
			header := w.Header()
			header.Set("Access-Control-Allow-Methods", asked)
			if names := r.Header.Values("Access-Control-Request-Headers"); names != nil {
				header["Access-Control-Allow-Headers"] = names
			}
			header.Set("Access-Control-Max-Age", preflightSeconds)
			w.WriteHeader(http.StatusNoContent)
		}
	})
}

// allowOrigin marks an answer as readable for pages of origin, if they are
// listed.
func (d *Doors) allowOrigin(header http.Header, origin string) (allowed bool) {
	origins := d.Rules().Origins
	switch {
	case slices.Contains(origins, AnyOrigin):
		header.Set("Access-Control-Allow-Origin", AnyOrigin)
	case len(origins) == 0:
		return false
	default:
		header.Add("Vary", "Origin") // a cache must not give one page what another was told
		if !slices.Contains(origins, origin) {
			return false
		}
		header.Set("Access-Control-Allow-Origin", origin)
	}
	header.Set("Access-Control-Expose-Headers", "*")
	return true
}
