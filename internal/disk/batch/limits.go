package batch

import (
	"fmt"

	"github.com/sievedb/sievedb/internal/base"
)

// The limits of writes, in bytes; package db documents them.
const (
	MaxKeySize   = 1 << 20
	MaxValueSize = 512 << 20
	MaxBatchSize = 1 << 30
)

// CheckEntry compares an entry with the limits. The error does not name the entry: keys never appear in errors.
func CheckEntry(key, value []byte) error {
	switch {
	case len(key) > MaxKeySize:
		return tooLargef("the key is %d bytes long, and at most %d (MaxKeySize) are supported; use a hash of it as the key", len(key), MaxKeySize)
	case len(value) > MaxValueSize:
		return tooLargef("the value is %d bytes long, and at most %d (MaxValueSize) are supported; write it in parts under several keys", len(value), MaxValueSize)
	}
	return nil
}

// checkMemory returns why entries that need so many bytes in a memtable are too large.
func checkMemory(size uint64, entries uint32) error {
	if size <= MaxBatchSize {
		return nil
	}
	return tooLargef("the %d entries of the batch take up to %d bytes in memory, and at most %d are supported; apply it in parts",
		entries, size, MaxBatchSize)
}

// tooLargef returns an ErrTooLarge.
func tooLargef(format string, args ...any) error {
	return fmt.Errorf("%w: %s", base.ErrTooLarge, fmt.Sprintf(format, args...))
}
