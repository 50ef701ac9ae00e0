# The node image of the cluster stack. docs/cluster-stacks.md of Stratos says how it is built. There
# is no block required_plugins, which Debian's Packer refuses: a Packer without builders needs
# `packer plugins install github.com/hashicorp/amazon` first.

variable "base" {
  type        = string
  default     = "ubuntu-24.04"
  description = "The distribution: ubuntu-24.04 or debian-12."
  validation {
    condition     = contains(["ubuntu-24.04", "debian-12"], var.base)
    error_message = "Variable base must be ubuntu-24.04 or debian-12."
  }
}

variable "architecture" {
  type        = string
  default     = "amd64"
  description = "The architecture: amd64 or arm64."
  validation {
    condition     = contains(["amd64", "arm64"], var.architecture)
    error_message = "Variable architecture must be amd64 or arm64."
  }
}

variable "region" {
  type        = string
  description = "The AWS region in which the image is built and kept."
  validation {
    condition     = regex_replace(var.region, "^[a-z]{2}(-[a-z]+)+-[0-9]+$", "is") == "is"
    error_message = "Variable region must be an AWS region such as eu-central-1."
  }
}

variable "node_image_version" {
  type        = string
  default     = "<< .NodeImageVersion >>"
  description = "The version of the node image. A release of the stack fills it in."
  validation {
    condition     = regex_replace(var.node_image_version, "^v[0-9]+(-\\w+\\.\\w+)?$", "v") == "v"
    error_message = "Variable node_image_version must be a version such as v1, as nodeImage in metadata.yaml."
  }
}

variable "instance_type" {
  type        = string
  default     = ""
  description = "The instance type that builds. Empty: m6i.large for amd64, m6g.large for arm64."
}

variable "subnet_id" {
  type        = string
  default     = ""
  description = "The subnet in which the instance runs. Empty: one of the default VPC."
}

variable "instance_profile" {
  type        = string
  default     = ""
  description = "An IAM instance profile that may pull from ECR. Empty: images of ECR are not in the node image."
}

variable "mirror" {
  type        = string
  default     = ""
  description = "Where programs come from in place of their own hosts: an address that begins with https://."
  validation {
    condition     = regex_replace(var.mirror, "^https://[^/].*$", "") == ""
    error_message = "Variable mirror must begin with https://, or be empty."
  }
}

variable "mirror_folder" {
  type        = string
  default     = ""
  description = "The same as a folder on the machine on which Packer runs."
}

variable "manifest" {
  type        = string
  default     = "manifest.json"
  description = "The file into which Packer writes the id of the image."
}

locals {
  kubernetes = "1.37.2"
  name       = "stratos-node-${var.base}-${local.kubernetes}-${var.node_image_version}-${var.architecture}"
  types      = { amd64 = "m6i.large", arm64 = "m6g.large" }
  # Names of architectures on EC2.
  machines = { amd64 = "x86_64", arm64 = "arm64" }
  # The publisher's account, its names for images, its user, and the device of its root volume.
  bases = {
    "ubuntu-24.04" = {
      owner = "099720109477"
      name  = "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-${var.architecture}-server-*"
      user  = "ubuntu"
      root  = "/dev/sda1"
    }
    "debian-12" = {
      owner = "136693071363"
      name  = "debian-12-${var.architecture}-*"
      user  = "admin"
      root  = "/dev/xvda"
    }
  }
  from   = local.bases[var.base]
  mirror = var.mirror_folder == "" ? var.mirror : "/tmp/node-image-mirror"
}

source "amazon-ebs" "node" {
  ami_name             = local.name
  ami_description      = "Kubernetes ${local.kubernetes} on ${var.base}, for the cluster stack of Stratos"
  region               = var.region
  instance_type        = var.instance_type == "" ? local.types[var.architecture] : var.instance_type
  subnet_id            = var.subnet_id
  iam_instance_profile = var.instance_profile
  ssh_username         = local.from.user
  source_ami_filter {
    filters = {
      name                = local.from.name
      architecture        = local.machines[var.architecture]
      root-device-type    = "ebs"
      virtualization-type = "hvm"
    }
    owners      = [local.from.owner]
    most_recent = true
  }
  launch_block_device_mappings {
    device_name           = local.from.root
    volume_size           = 20
    volume_type           = "gp3"
    iops                  = 3000
    throughput            = 125
    delete_on_termination = true
  }
  tags = {
    Name                   = local.name
    "stratos.sh/base"      = var.base
    "stratos.sh/base-ami"  = "{{ .SourceAMI }}"
    "stratos.sh/base-name" = "{{ .SourceAMIName }}"
  }
}

build {
  sources = ["source.amazon-ebs.node"]

  provisioner "shell" {
    inline = ["mkdir -p /tmp/node-image /tmp/node-image-mirror"]
  }
  provisioner "file" {
    source      = "${path.root}/"
    destination = "/tmp/node-image"
  }
  # A provisioner cannot be left out. Without a folder it uploads small files, which nothing reads.
  provisioner "file" {
    source      = var.mirror_folder == "" ? "${path.root}/root/" : "${var.mirror_folder}/"
    destination = "/tmp/node-image-mirror"
  }
  provisioner "shell" {
    environment_vars = [
      "NODE_IMAGE_MIRROR=${local.mirror}",
      "NODE_IMAGE_REGION=${var.region}",
      "NODE_IMAGE_ECR=${var.instance_profile == "" ? "" : "yes"}",
    ]
    # The last script has removed it.
    skip_clean      = true
    execute_command = "sudo env {{ .Vars }} sh -eu {{ .Path }}"
    inline = [
      "cloud-init status --wait || true",
      "sh /tmp/node-image/install.sh",
      "sh /tmp/node-image/pull.sh",
      "sh /tmp/node-image/clean.sh",
    ]
  }

  post-processor "manifest" {
    output     = var.manifest
    strip_path = true
  }
}
