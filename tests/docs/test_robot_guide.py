"""The C and C++ of the guide to robots compile with an exported controller."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("sb3_contrib")

from helpers.docs_pages import ROOT, blocks
from helpers.small_agents import small_agent
from ncp_control.export import export_c

GUIDE = ROOT / "docs" / "guides" / "robot.md"
STRICT = ("-Wall", "-Wextra", "-Werror", "-fsyntax-only")
# What the blocks call of Arduino and of ROS 2, as these declare it.
ARDUINO = "unsigned long micros();\n"
ROS = {
    "rclcpp/rclcpp.hpp": """
#pragma once
#include <functional>
#include <memory>
#define RCLCPP_WARN(logger, ...) report(logger, __VA_ARGS__)
namespace rclcpp {
struct Logger {};
struct Duration { double seconds() const; };
struct Time { Duration operator-(const Time &other) const; };
template <class Message> struct Publisher {
  using SharedPtr = std::shared_ptr<Publisher<Message>>;
  void publish(const Message &message);
};
template <class Message> struct Subscription { using SharedPtr = std::shared_ptr<Subscription<Message>>; };
class Node {
 public:
  explicit Node(const char *name);
  virtual ~Node();
  Time now() const;
  Logger get_logger() const;
  template <class Message> typename Publisher<Message>::SharedPtr create_publisher(const char *topic, int depth);
  template <class Message> typename Subscription<Message>::SharedPtr create_subscription(
      const char *topic, int depth, std::function<void(const Message &)> callback);
};
void init(int count, char **words);
void spin(std::shared_ptr<Node> node);
}
void report(rclcpp::Logger logger, const char *format, ...);
""",
    "std_msgs/msg/float32_multi_array.hpp": """
#pragma once
#include <vector>
namespace std_msgs { namespace msg { struct Float32MultiArray { std::vector<float> data; }; } }
""",
}


def compiled(source: str, name: str, folder: Path, *flags: str) -> None:
    """Compiles one block beside an exported controller; a warning is an error."""
    compiler = next(
        filter(None, map(shutil.which, ("cc", "gcc", "clang") if name.endswith(".c") else ("c++", "g++"))), None
    )
    if compiler is None:
        pytest.skip("this machine has no C or C++ compiler")
    (folder / name).write_text(source)
    done = subprocess.run([compiler, *STRICT, *flags, name], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def robot(tmp_path: Path) -> Path:
    """A folder with an exported controller."""
    return export_c(small_agent("circuit", tmp_path), tmp_path / "robot")


def test_the_loop_in_c_compiles(robot: Path) -> None:
    (loop,) = blocks(GUIDE, "c")
    compiled(loop, "loop.c", robot, "-std=c99", "-pedantic")


def test_the_sketch_for_arduino_compiles(robot: Path) -> None:
    sketch, _ = blocks(GUIDE, "cpp")
    assert "controller_step(" in sketch
    compiled(ARDUINO + sketch, "sketch.cpp", robot, "-std=c++11")


@pytest.mark.system
def test_the_node_for_ros_compiles(robot: Path) -> None:
    _, node = blocks(GUIDE, "cpp")
    assert "controller_step(" in node
    for name, text in ROS.items():
        (robot / name).parent.mkdir(parents=True, exist_ok=True)
        (robot / name).write_text(text)
    compiled(node, "node.cpp", robot, "-std=c++17", "-I.")
