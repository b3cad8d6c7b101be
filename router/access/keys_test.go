package access

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func fileOf(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAKeyIsFoundByItselfOnly(t *testing.T) {
	bearer, line := NewKey("team:a", "tenant=blue")
	_, other := NewKey("b")
	list, err := ReadKeys(fileOf(t, "# clients", "", other, line), TenantAttribute)
	if err != nil {
		t.Fatal(err)
	}
	if k := list.Find(bearer); k == nil || k.Name != "team:a" || k.Tenant != "blue" {
		t.Errorf("found %+v", k)
	}
	hash := strings.Fields(line[strings.LastIndexByte(line, ':')+1:])[0]
	for _, bad := range []string{"", bearer + "x", bearer[:len(bearer)-1], hash, line} {
		if list.Find(bad) != nil {
			t.Errorf("%q was let in", bad)
		}
	}
}

func TestKeyFileFaultsNameTheLineAndNoSecret(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	for _, bad := range []string{
		"nocolon", ":" + hash, "a:zz", "a:" + hash[1:], "a:" + hash + " tenant", "a:" + hash + " tenant=", "a:" + hash + " role=read",
		"first:" + hash, "a:",
	} {
		_, err := parseKeys([]byte("first:"+hash+"\n"+bad), TenantAttribute)
		if err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v", bad, err)
		} else if strings.Contains(err.Error(), hash[1:]) {
			t.Errorf("%q: the fault quotes a hash: %v", bad, err)
		}
	}
	if _, err := parseKeys([]byte("a:"+hash+" role=all"), RoleAttribute); err == nil {
		t.Error("a role that does not exist was taken")
	}
	if _, err := ReadKeys(fileOf(t, strings.Repeat("#", maxKeysBytes)), RoleAttribute); err == nil {
		t.Error("a file over the bound was read")
	}
}
