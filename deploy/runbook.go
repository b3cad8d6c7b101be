package deploy

import _ "embed"

// Runbook is README.md: what each alert means and what to do.
//
//go:embed README.md
var Runbook string
