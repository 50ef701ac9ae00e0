package observe

import "time"

// alertStories are those of each alert, by its name. Thresholds are those of the chart's values,
// but for StratosSlowScaleUp, whose is 45 seconds in everything-on.
func alertStories() map[string]map[string]story {
	const never = time.Duration(0)
	minutes := func(n int) time.Duration { return time.Duration(n) * time.Minute }
	pool := `
		stratos_nodepool_desired_standby{pool="p"} 5x180
		stratos_nodepool_pool_size{pool="p"} 10x180
	`
	return map[string]map[string]story{
		"StratosLowStandby": {
			"fewer than minStandby for a while": {pool + `
				stratos_nodepool_nodes_total{pool="p",state="standby"} 1x40 5x140
				stratos_nodepool_nodes_total{pool="p",state="running"} 2x180
				stratos_nodepool_nodes_total{pool="p",state="warmup"} 4x180
			`, minutes(15), minutes(41), "only 1 standby nodes"},
			"for less than a warm-up takes": {pool + `
				stratos_nodepool_nodes_total{pool="p",state="standby"} 1x10 5x160
				stratos_nodepool_nodes_total{pool="p",state="running"} 2x180
			`, never, never, ""},
			"all of poolSize is in use": {pool + `
				stratos_nodepool_nodes_total{pool="p",state="standby"} 1x180
				stratos_nodepool_nodes_total{pool="p",state="running"} 9x180
			`, never, never, ""},
		},
		"StratosWarmupFailing": {
			"the second": {`stratos_nodepool_consecutive_warmup_failures{pool="p"} 0x9 1x9 2x19 0x140`, minutes(20),
				minutes(40), "2 failed warm-ups"},
			"one is an accident": {`stratos_nodepool_consecutive_warmup_failures{pool="p"} 0x9 1x170`, never, never, ""},
		},
		"StratosStartsFailing": {
			// The first failure makes a series with reason timeout that was 0 before.
			"three within half an hour": {`stratos_nodepool_start_failures_total{pool="p",reason="timeout"} 0x9 1x4 2x4 3x160`,
				minutes(20), minutes(39), "starts of nodes of pool p"},
			"one now and then": {`stratos_nodepool_start_failures_total{pool="p",reason="timeout"} 0x29 1x39 2x39 3x79`, never,
				never, ""},
		},
		"StratosSlowScaleUp": {
			"two of ten take a minute": {`
				stratos_nodepool_scaleup_duration_seconds_bucket{pool="p",le="30"} 0+8x30 248x150
				stratos_nodepool_scaleup_duration_seconds_bucket{pool="p",le="60"} 0+10x30 310x150
				stratos_nodepool_scaleup_duration_seconds_bucket{pool="p",le="+Inf"} 0+10x30 310x150
			`, minutes(6), minutes(60), "Nodes of pool p took 52.5s"},
			"all are fast": {`
				stratos_nodepool_scaleup_duration_seconds_bucket{pool="p",le="30"} 0+10x180
				stratos_nodepool_scaleup_duration_seconds_bucket{pool="p",le="60"} 0+10x180
				stratos_nodepool_scaleup_duration_seconds_bucket{pool="p",le="+Inf"} 0+10x180
			`, never, never, ""},
		},
		"StratosNodesOverdue": {
			"two hang": {`stratos_nodepool_overdue_nodes{pool="p",state="stopping"} 0x9 2x20 0x140`, minutes(15), minutes(31),
				"2 nodes of pool p are stopping"},
			"none": {`stratos_nodepool_overdue_nodes{pool="p",state="stopping"} 0x180`, never, never, ""},
		},
		"StratosStartupTaintsForced": {
			"one": {`stratos_nodepool_startup_taints_forced_total{pool="p"} 0x9 1x170`, minutes(10), minutes(69),
				"Pool p opened 1"},
			"none": {`stratos_nodepool_startup_taints_forced_total{pool="p"} 3x180`, never, never, ""},
		},
		"StratosPoolPaused": {
			"two hours": {`
				stratos_nodepool_paused{pool="p",pod="a"} 1x120 0x60
				stratos_nodepool_paused{pool="p",pod="b"} 1x120 0x60
			`, minutes(60), minutes(121), "NodePool p is paused"},
			"half an hour": {`stratos_nodepool_paused{pool="p"} 1x30 0x150`, never, never, ""},
		},
		"StratosNodeClassNotReady": {
			"refused by the cloud": {`
				stratos_nodeclass_condition{kind="AWSNodeClass",class="c",condition="Ready",status="False"} 0x9 1x49 0x120
				stratos_nodeclass_condition{kind="AWSNodeClass",class="c",condition="Ready",status="True"} 1x9 0x49 1x120
			`, minutes(20), minutes(60), "AWSNodeClass c is not Ready"},
			"another condition": {`
				stratos_nodeclass_condition{kind="AWSNodeClass",class="c",condition="Other",status="False"} 1x180
			`, never, never, ""},
		},
		"StratosCloudThrottled": {
			"a call a second waits": {`
				stratos_cloud_provider_throttled_seconds_total{provider="aws",operation="StartInstances"} 0+60x30 1860x150
			`, minutes(6), minutes(36), "Calls of StartInstances waited"},
			"a burst": {`
				stratos_cloud_provider_throttled_seconds_total{provider="aws",operation="StartInstances"} 0x9 120x170
			`, never, never, ""},
		},
		"StratosNoLeader": {
			"neither of two": {`
				leader_election_master_status{name="stratos",namespace="n",pod="a"} 1x9 0x30 1x140
				leader_election_master_status{name="stratos",namespace="n",pod="b"} 0x180
			`, minutes(11), minutes(41), "No replica"},
			"another takes over": {`
				leader_election_master_status{name="stratos",namespace="n",pod="a"} 1x9 0x170
				leader_election_master_status{name="stratos",namespace="n",pod="b"} 0x9 1x170
			`, never, never, ""},
		},
		"StratosAbsent": {
			"no replica": {`leader_election_master_status{name="stratos"} 1x9 _x40 1x130`, minutes(19), minutes(50),
				"no metrics of Stratos"},
			"one is left": {`leader_election_master_status{name="stratos"} 0x180`, never, never, ""},
		},
		"StratosSchedulerErrors": {
			"for ten minutes": {`stratos_scheduler_error_pods{scheduler="s"} 0x9 4x10 0x160`, minutes(15), minutes(21),
				"Scheduler s fails over 4 pods"},
			"for a moment": {`stratos_scheduler_error_pods{scheduler="s"} 0x9 4x1 0x169`, never, never, ""},
		},
		"StratosExtenderErrors": {
			"one": {`
				stratos_extender_requests_total{verb="filter",code="500"} 0x9 1x170
				stratos_extender_requests_total{verb="filter",code="200"} 0+9x180
			`, minutes(10), minutes(19), "requests of filter with 500"},
			"all are answered": {`stratos_extender_requests_total{verb="filter",code="200"} 0+9x180`, never, never, ""},
		},
		"StratosCertificateEnds": {
			// 604800 seconds are 7 days: the alert's expression is true after 60 minutes.
			"not renewed": {`stratos_serving_certificate_expiration_timestamp_seconds{namespace="n"} 608400x139 9999999x40`,
				minutes(121), minutes(140), "ends in"},
			"renewed in time": {`stratos_serving_certificate_expiration_timestamp_seconds{namespace="n"} 9999999x180`, never,
				never, ""},
		},
	}
}
