// Command banyan is one router peer, the tools around it, and a stand-in
// replica to try it with.
package main
