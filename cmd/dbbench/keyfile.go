package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// keyList holds the lines of a key file: keys, and the values of those that have one. It is immutable after reading.
// All lines share one slice, because a slice header per key would use more memory than the keys.
type keyList struct {
	data  []byte
	lines []line
}

// line locates a key and its value in keyList.data.
type line struct {
	start, keyLen int
	valueLen      int // -1: the line has no TAB
}

func (l *keyList) len() int { return len(l.lines) }

// key returns key i. The caller must not change it.
func (l *keyList) key(i int) []byte {
	e := l.lines[i]
	return l.data[e.start : e.start+e.keyLen : e.start+e.keyLen]
}

// value returns the value of line i, and false if it has none.
func (l *keyList) value(i int) ([]byte, bool) {
	e := l.lines[i]
	if e.valueLen < 0 {
		return nil, false
	}
	start := e.start + e.keyLen + 1
	return l.data[start : start+e.valueLen : start+e.valueLen], true
}

// add appends a key without a value.
func (l *keyList) add(key []byte) {
	l.lines = append(l.lines, line{start: len(l.data), keyLen: len(key), valueLen: -1})
	l.data = append(l.data, key...)
}

// first returns a list of at most the first n lines.
func (l *keyList) first(n int) *keyList {
	return &keyList{data: l.data, lines: l.lines[:min(n, len(l.lines))]}
}

// readKeyFile reads a key file, which is gzip-compressed if its name ends in .gz.
func readKeyFile(name string) (*keyList, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	if strings.HasSuffix(name, ".gz") {
		if data, err = gunzip(data); err != nil {
			return nil, fmt.Errorf("key file %s: %w", name, err)
		}
	}
	list, err := parseKeys(data)
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", name, err)
	}
	return list, nil
}

func gunzip(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// parseKeys splits data into lines, which end in LF or CR LF; the last line end is optional. A line
// is a key, or a key, a TAB and a value. The list retains data.
func parseKeys(data []byte) (*keyList, error) {
	list := &keyList{data: data, lines: make([]line, 0, bytes.Count(data, []byte{'\n'})+1)}
	for start := 0; start < len(data); {
		text, _, _ := bytes.Cut(data[start:], []byte{'\n'})
		next := start + len(text) + 1
		text = bytes.TrimSuffix(text, []byte{'\r'})
		key, value, hasValue := bytes.Cut(text, []byte{'\t'})
		if len(key) == 0 {
			return nil, fmt.Errorf("line %d has no key", len(list.lines)+1)
		}
		e := line{start: start, keyLen: len(key), valueLen: -1}
		if hasValue {
			e.valueLen = len(value)
		}
		list.lines = append(list.lines, e)
		start = next
	}
	if list.len() == 0 {
		return nil, errors.New("the file has no keys")
	}
	return list, nil
}
