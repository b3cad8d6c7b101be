package main

import (
	"os"
	"path/filepath"
	"runtime"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// sbom writes the modules of the binary with versions and licences, as CycloneDX
// JSON, and returns the file's name.
func (r *release) sbom() (string, error) {
	list, err := modules(r.root)
	if err != nil {
		return "", err
	}
	const own = "pkg:golang/github.com/banyan-llm/banyan@"
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.at.Format(time.RFC3339),
		Component: &cdx.Component{BOMRef: own + r.version, Type: cdx.ComponentTypeApplication, Name: "banyan", Version: r.version, PackageURL: own + r.version},
	}
	components := []cdx.Component{{BOMRef: "go", Type: cdx.ComponentTypeFramework, Name: "go", Version: runtime.Version()}}
	needs := []string{"go"}
	for _, m := range list {
		url := "pkg:golang/" + m.Path + "@" + m.Version
		c := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: url}
		if licence := licenceOf(m.Dir); licence != "" {
			c.Licenses = &cdx.Licenses{{License: &cdx.License{Name: licence}}}
		}
		components, needs = append(components, c), append(needs, url)
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: own + r.version, Dependencies: &needs}}
	name := "banyan-" + r.version + ".cdx.json"
	f, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return "", err
	}
	return name, f.Close()
}
