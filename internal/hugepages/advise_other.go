//go:build !linux

package hugepages

func allowed() bool { return false }

func advise(from, n uintptr) (ok bool) { return false }

func collapse(page uintptr) (again bool) { return false }
