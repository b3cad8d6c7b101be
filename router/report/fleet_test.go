package report

import (
	"strings"
	"testing"
)

func TestMissingRolesAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		on    bool
		roles []string
		says  string
	}{
		"off":             {false, []string{"both"}, ""},
		"off with decode": {false, []string{"both", "decode"}, "no requests go to replicas of role: decode while routing.disaggregate.mode is off: decode"},
		"on":              {true, []string{"prefill", "decode"}, ""},
		"no prefill":      {true, []string{"both", "decode"}, "no replica has role: prefill"},
		"neither":         {true, []string{"both"}, "no replica has role: prefill nor role: decode"},
	} {
		f := Fleet{Mode: "threshold", Apart: c.on}
		for _, role := range c.roles {
			f.Listed = append(f.Listed, Listed{Name: role, Role: role, Serves: true})
		}
		got := f.RoleProblems()
		if (c.says == "") != (len(got) == 0) || c.says != "" && !strings.Contains(got[0].Text, c.says) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
