package main

import (
	"fmt"

	"github.com/sievedb/sievedb/testdata"
)

// shippedWords returns the project's stored and absent words. testdata/README.md has their source and licence.
func shippedWords() (stored, absent *keyList, err error) {
	for _, f := range []struct {
		name string
		list **keyList
	}{{testdata.WordsStored, &stored}, {testdata.WordsAbsent, &absent}} {
		data, err := testdata.Words.ReadFile(f.name)
		if err == nil {
			data, err = gunzip(data)
		}
		if err == nil {
			*f.list, err = parseKeys(data)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("word list %s: %w", f.name, err)
		}
	}
	return stored, absent, nil
}
