//go:build !linux

package hugepages

func canCollapse() bool { return false }

func advise(from, n uintptr) {}

func unadvise(from, n uintptr) {}

func collapse(page uintptr) {}
