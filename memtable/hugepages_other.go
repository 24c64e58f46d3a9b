//go:build !linux

package memtable

// adviseHugePages does nothing: there is no such call, or the system needs none.
func adviseHugePages([]byte) {}
