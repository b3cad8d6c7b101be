// Package lint renders the Helm chart offline over a matrix of values and
// checks what comes out. It is a module of its own, so that Helm and the
// Kubernetes types are nobody's dependency but these tests'.
//
// Run it with `make deploy-check`; -rewrite takes the rendered manifests over.
package lint
