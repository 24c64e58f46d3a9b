package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/slot"
)

func TestTagsAreInTheirGroups(t *testing.T) {
	for group, tag := range tags {
		require.EqualValues(t, group, slot.GroupOf(slot.Of([]byte("demo:{"+tag+"}:1:1")), 4))
	}
}
