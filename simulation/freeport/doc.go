// Package freeport gives tests addresses for servers that go away and come
// back, or that must refuse. The kernel's own choice is no such address: once
// its server is away, the port may be the next one that somebody is given, in
// this process or in another one.
package freeport
