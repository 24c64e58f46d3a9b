package vfs_test

import "github.com/sievedb/sievedb/vfs"

func isWine() bool { return vfs.IsWine() }
