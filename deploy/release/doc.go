// Command release builds what is published of a version, without Docker and
// equal to the byte wherever it is built: archives for Linux and macOS, image
// archives for `docker load`, and their checksums. It is a module of its own, so
// that what builds images is no dependency of Banyan's.
//
// The tests build twice in two folders and compare, read the images back, and
// check that every module in the binary has a licence that allows to pass it on.
//
// Run it with `make release`; `make deploy-check` runs the tests.
package main
