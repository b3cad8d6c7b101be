// Package deploy holds what a peer needs to run, and the runbook, which every
// peer serves.
package deploy

import _ "embed"

// Runbook is README.md: what each alert means and what to do.
//
//go:embed README.md
var Runbook string
