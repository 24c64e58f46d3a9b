package db_test

import (
	"testing"

	"github.com/sievedb/sievedb/internal/test/script/stores"
)

// TestScripts runs the scenarios in testdata/scripts.
//
//make:portable
func TestScripts(t *testing.T) { stores.Run(t, "testdata/scripts") }
