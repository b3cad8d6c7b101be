package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// copied is the checkout in a folder of another name.
func copied(t *testing.T) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "another-folder")
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	for _, name := range strings.Split(strings.TrimRight(string(out), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join("../..", name))
		if errors.Is(err, os.ErrNotExist) { // removed and not committed
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func made(t *testing.T, root, certs string) string {
	t.Helper()
	r := release{root: root, out: filepath.Join(t.TempDir(), "out"), version: "v0.0.1", certs: certs, at: time.Unix(1_800_000_000, 0).UTC()}
	if err := r.run([]target{{"linux", runtime.GOARCH}}); err != nil {
		t.Fatal(err)
	}
	if err := r.run(nil); err == nil {
		t.Error("files of an older release are mixed with this one's")
	}
	return r.out
}

func TestTwoBuildsInTwoFoldersAreEqual(t *testing.T) {
	certs := filepath.Join(t.TempDir(), "certs")
	if err := os.WriteFile(certs, []byte("authorities"), 0o600); err != nil {
		t.Fatal(err)
	}
	one, two := made(t, "../..", certs), made(t, copied(t), certs)
	sums, err := os.ReadFile(filepath.Join(one, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	again, _ := os.ReadFile(filepath.Join(two, "SHA256SUMS"))
	if string(sums) != string(again) || strings.Count(string(sums), "\n") != 3 {
		t.Errorf("two builds differ:\n%s%s", sums, again)
	}
	names := archived(t, filepath.Join(one, "banyan-v0.0.1-linux-"+runtime.GOARCH+".tar.gz"))
	if got := strings.Join(names, " "); !strings.Contains(got, "/banyan ") || !strings.Contains(got, "/banyan.yaml") {
		t.Errorf("the archive holds %s", got)
	}
	billed(t, filepath.Join(one, "banyan-v0.0.1.cdx.json"))
	runsFromImage(t, filepath.Join(one, "banyan-v0.0.1-linux-"+runtime.GOARCH+"-image.tar"))
}

func archived(t *testing.T, path string) (names []string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
}

// runsFromImage reads an image back and runs its entry point.
func runsFromImage(t *testing.T, path string) {
	t.Helper()
	image, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c := config.Config; c.User != "65532:65532" || c.StopSignal != "SIGTERM" || c.Entrypoint[0] != "/usr/local/bin/banyan" || config.Architecture != runtime.GOARCH {
		t.Errorf("the image is %+v", config)
	}
	binary := filepath.Join(t.TempDir(), "banyan")
	content := mutate.Extract(image)
	defer content.Close()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if err != nil {
			t.Fatalf("no binary in the image: %v", err)
		}
		if "/"+h.Name != config.Config.Entrypoint[0] {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(binary, data, os.FileMode(h.Mode)); err != nil {
			t.Fatal(err)
		}
		break
	}
	out, err := exec.Command(binary, "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "v0.0.1") {
		t.Errorf("banyan version: %v, %s", err, out)
	}
}

// billed reads the bill of materials back.
func billed(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(f, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, c := range *bom.Components {
		found[c.Name] = c.Version != "" && (c.Name == "go" || c.Licenses != nil)
	}
	for _, name := range []string{"go", "github.com/hashicorp/memberlist", "github.com/vmihailenco/msgpack/v5"} {
		if !found[name] {
			t.Errorf("the bill of materials says nothing of the version and licence of %s", name)
		}
	}
}
