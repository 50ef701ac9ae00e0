// Package errors has the type of error that flannel's backend for Tencent's cloud looks for.
package errors

// TencentCloudSDKError never occurs here.
type TencentCloudSDKError struct{}

func (*TencentCloudSDKError) Error() string { return "" }
