package fleet

import (
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

func TestFailedDiscoveryIsAWarning(t *testing.T) {
	gone := errors.New("the API is gone")
	var out strings.Builder
	log := hclog.New(&hclog.LoggerOptions{Output: &out})
	k := Kubernetes{Logger: log}
	k.say(gone)
	k.say(gone)
	k.say(nil)
	for _, once := range []string{"[WARN]  kubernetes discovery failed", "trouble=\"the API is gone\"", "[INFO]  kubernetes discovery works again"} {
		if strings.Count(out.String(), once) != 1 {
			t.Errorf("%q is not logged once:\n%s", once, out.String())
		}
	}
}
