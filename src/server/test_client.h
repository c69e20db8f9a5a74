// Tests only: a blocking HTTP client over a plain socket, written without the server's libraries.
#pragma once
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

namespace hocket::server {

struct Response {
  int status = 0;
  std::map<std::string, std::string> headers;
  std::string body;  ///< chunks joined
};

/// Every wait ends after 20 s with an exception.
class Client {
 public:
  explicit Client(uint16_t port, int receive_buffer = 0) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) throw std::runtime_error("connect");
  }
  ~Client() { close(); }
  Client(Client&& other) noexcept : fd_(std::exchange(other.fd_, -1)), input_(std::move(other.input_)) {}
  Client& operator=(Client&&) = delete;

  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void send(std::string_view data) {
    while (!data.empty()) {
      const ssize_t sent = ::send(fd_, data.data(), data.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // the server has closed: what it says is still to be read
      data.remove_prefix(static_cast<size_t>(sent));
    }
  }
  void post(std::string_view body, std::string_view headers = "") {
    send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         std::string(headers) + "\r\n" + std::string(body));
  }
  Response get(std::string_view target, std::string_view method = "GET") {
    send(std::string(method) + " " + std::string(target) + " HTTP/1.1\r\nHost: x\r\n\r\n");
    return response(method == "HEAD" ? Body::none : Body::as_declared);
  }

  enum class Body { none, as_declared };
  Response response(Body kind = Body::as_declared) {
    Response r = head();
    if (kind == Body::none) return r;
    if (r.headers.count("transfer-encoding") != 0) {
      while (true) {
        const size_t size = std::stoul(line(), nullptr, 16);
        r.body += take(size);
        if (line() != "") throw std::runtime_error("a chunk does not end with its size");
        if (size == 0) return r;
      }
    }
    if (r.headers.count("content-length") != 0) {
      r.body = take(std::stoul(r.headers["content-length"]));
    } else {
      while (receive()) {
      }
      r.body = std::exchange(input_, "");
    }
    return r;
  }
  Response head() {
    Response r;
    r.status = std::stoi(line().substr(9, 3));
    for (std::string field = line(); !field.empty(); field = line()) {
      const size_t colon = field.find(": ");
      std::string name = field.substr(0, colon);
      for (char& c : name) c = static_cast<char>(std::tolower(c));
      r.headers[name] = field.substr(colon + 2);
    }
    return r;
  }
  /// The next chunk of a chunked body.
  std::string chunk() {
    const size_t size = std::stoul(line(), nullptr, 16);
    std::string data = take(size);
    line();
    return data;
  }
  bool closed_by_server() {
    while (receive()) {
    }
    return true;
  }
  int fd() const { return fd_; }

 private:
  /// False at the end of the connection.
  bool receive() {
    pollfd wait{fd_, POLLIN, 0};
    if (poll(&wait, 1, 20'000) != 1) throw std::runtime_error("the server does not answer");
    char buffer[65536];
    const ssize_t got = recv(fd_, buffer, sizeof buffer, 0);
    if (got > 0) input_.append(buffer, static_cast<size_t>(got));
    return got > 0;
  }
  std::string line() {
    size_t end = 0;
    while ((end = input_.find("\r\n")) == std::string::npos) {
      if (!receive()) throw std::runtime_error("the connection ended within a line: " + input_);
    }
    std::string text = input_.substr(0, end);
    input_.erase(0, end + 2);
    return text;
  }
  std::string take(size_t size) {
    while (input_.size() < size) {
      if (!receive()) throw std::runtime_error("the connection ended within a body: " + input_);
    }
    std::string data = input_.substr(0, size);
    input_.erase(0, size);
    return data;
  }

  int fd_;
  std::string input_;
};

}  // namespace hocket::server
