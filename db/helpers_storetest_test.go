package db_test

import (
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/storetest"
)

func init() {
	db.SetHelpers(
		storetest.Options, storetest.MustOpen, storetest.Open, storetest.MustFollow, storetest.NewLoader, storetest.WatchedOptions,
		storetest.Walk, storetest.CheckpointTo, storetest.BudgetOptions, storetest.Grown, storetest.Fill,
		storetest.FilledLevels, storetest.PutAll, storetest.Settle, storetest.WaitUntilIdle,
		storetest.StrayFilesWhenIdle, storetest.RequireValue, storetest.RequireNoFaults, storetest.RequireContent,
		storetest.Contents, storetest.Sample, storetest.FateOf, storetest.Repaired,
	)
}
