//go:build !windows

package vfs_test

func isWine() bool { return false }
