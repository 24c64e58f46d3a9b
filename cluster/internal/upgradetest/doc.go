// Package upgradetest has tests only: nodes are restarted one after another under load, as an upgrade does, and this
// version opens what earlier ones have written. testdata/README.md says which versions those are.
package upgradetest
