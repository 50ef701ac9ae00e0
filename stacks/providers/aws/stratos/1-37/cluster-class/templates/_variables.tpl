{{/* The variables that a Cluster sets, each with its schema, default, example and description. The owner of the
image has no default: a class cannot know an account, and the provider takes no "self". */}}
{{- define "class.variables" -}}
- name: region
  required: true
  schema:
    openAPIV3Schema:
      type: string
      pattern: ^[a-z]{2}(-[a-z]+)+-[0-9]+$
      default: eu-central-1
      example: eu-central-1
      description: The AWS region of the cluster.
- name: vpcCIDR
  required: true
  schema:
    openAPIV3Schema:
      type: string
      pattern: ^([0-9]{1,3}\.){3}[0-9]{1,3}/(1[6-9]|2[0-8])$
      default: 10.0.0.0/16
      example: 10.20.0.0/16
      description: The network range of the VPC, from which nodes and pods get their addresses.
- name: controlPlaneInstanceType
  required: true
  schema:
    openAPIV3Schema:
      type: string
      pattern: ^[a-z0-9-]+\.[a-z0-9-]+$
      default: m6i.large
      example: m6i.xlarge
      description: The instance type of control-plane machines.
- name: workerInstanceType
  required: true
  schema:
    openAPIV3Schema:
      type: string
      pattern: ^[a-z0-9-]+\.[a-z0-9-]+$
      default: m6i.large
      example: m6g.large
      description: The instance type of worker machines that Cluster API keeps. Pools of Stratos have their own.
- name: controlPlaneRootVolumeSize
  required: true
  schema:
    openAPIV3Schema:
      type: integer
      minimum: 8
      maximum: 16384
      default: 40
      example: 80
      description: The size of the root volume of control-plane machines in GiB.
- name: workerRootVolumeSize
  required: true
  schema:
    openAPIV3Schema:
      type: integer
      minimum: 8
      maximum: 16384
      default: 40
      example: 80
      description: The size of the root volume of worker machines in GiB.
- name: sshKeyName
  required: true
  schema:
    openAPIV3Schema:
      type: string
      maxLength: 255
      default: ""
      example: operators
      description: The EC2 key pair of the machines. None by default.
- name: controlPlaneInstanceProfile
  required: true
  schema:
    openAPIV3Schema:
      type: string
      minLength: 1
      default: control-plane.cluster-api-provider-aws.sigs.k8s.io
      example: stratos-control-plane
      description: The IAM instance profile of control-plane machines. Its role needs docs/aws-iam-policy.json of Stratos too.
- name: nodeInstanceProfile
  required: true
  schema:
    openAPIV3Schema:
      type: string
      minLength: 1
      default: nodes.cluster-api-provider-aws.sigs.k8s.io
      example: stratos-nodes
      description: The IAM instance profile of worker machines.
- name: imageOwner
  required: true
  schema:
    openAPIV3Schema:
      type: string
      pattern: ^[0-9]{12}$
      example: "123456789012"
      description: The account that owns the node image. It has no default, because the AWS provider looks images up by the number.
{{- end }}
